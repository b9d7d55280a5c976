"""The explorer as a Voila page: no notebook around it, a kernel behind it."""

import pytest

from . import chrome, servers


def test_the_explorer_on_a_page_of_its_own(folder, open_page):
    pytest.importorskip("voila", reason="this test needs Voila: pip install -r requirements-dev.txt")
    path = servers.notebook(folder, "explorer", "import gpipe_edu as ge\nge.gantt(ge.gpipe(3, 4))")
    page = open_page()
    with servers.voila(folder, path) as address:
        page.goto(address)
        page.wait_for_selector(".ge-base rect", state="attached")
        assert "18" in page.inner_text(".ge-figures")
        page.focus('.ge-controls input[type="range"][data-name="M"]')
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('21')")
        assert chrome.our_problems(page) == []
