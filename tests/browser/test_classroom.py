"""The puzzle alone on a page, as a lecturer serves it: no code, one screen, nothing asked of the network."""

import contextlib
import os
import re

import pytest

from gpipe_edu.base.store import HOME
from gpipe_edu.puzzles import LEVELS

from . import chrome, servers

pytestmark = pytest.mark.slow


@pytest.fixture
def classroom(tmp_path):
    pytest.importorskip("voila", reason="this test needs Voila: pip install -r requirements-dev.txt")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with contextlib.ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # for the server alone: a browser wants short paths
            patch.setenv("TMPDIR", str(temporary))
            address = stack.enter_context(servers.classroom(tmp_path))
        yield address
    assert [name for name in os.listdir(temporary) if name.startswith("gpipe_edu")] == []
    assert list(servers.home(tmp_path, HOME).iterdir()) == [], "nothing of what the class plays is kept"


def test_the_puzzle_is_played_on_one_screen_and_nothing_else_is_there(classroom, open_page):
    page = open_page(1280, 720)
    sent = page.goto(classroom).text()
    assert re.findall(r"<[^>]+(?:href|src)\s*=\s*[\"']?(?:https?:)?//[^>]+>", sent) == []
    page.wait_for_selector(".gp-board .ge-base")
    size = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
    assert size == [1280, 720]
    assert "import gpipe_edu" not in page.content()
    box = page.locator(".gp-text")
    small = box.bounding_box()["height"]
    page.set_viewport_size({"width": 1920, "height": 1080})  # a wall: all grows with it, and fits it
    page.wait_for_function(f"document.querySelector('.gp-text').getBoundingClientRect().height > {1.4 * small}")
    assert page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [
        1920,
        1080,
    ]
    for op in ("F0@0", "F0@1", "F0@2", "B0@2", "B0@1", "B0@0"):
        page.fill(".gp-text", op)
        page.press(".gp-text", "Enter")
        page.wait_for_function("() => document.querySelector('.gp-text').value === ''")
    page.wait_for_function("() => document.querySelector('.gp-said').innerText.includes('olved')")
    assert page.locator(".gp-chip").count() == len(LEVELS)
    assert [url for url in page.requests if not url.startswith((classroom, "blob:", "data:"))] == []
    page.goto(classroom)  # whoever opens it anew begins anew
    page.wait_for_selector(".gp-board .ge-base")
    assert page.evaluate(r"() => document.querySelector('.gp-board [aria-label]').ariaLabel.match(/\d+/)[0]") == "0"
    assert chrome.our_problems(page) == []
