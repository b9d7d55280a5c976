"""The picture of a plan in a browser: a cell tells what it is when one points at it, and nothing is lost on a phone."""

import pytest

from gpipe_edu.sizing import Guide, presets
from gpipe_edu.sizing.picture import as_html
from gpipe_edu.view.theme import THEME

PLAN = "document.querySelector('.gpipe-plan')"


@pytest.fixture(scope="module")
def guide():
    return Guide(presets.job(presets.model("gpt2-xl"), 64, "rtx4090", 4))


@pytest.fixture
def show(guide, open_page, tmp_path, monkeypatch):
    monkeypatch.setenv(THEME, "page")
    path = tmp_path / "plan.html"
    path.write_text(
        '<!doctype html><meta charset="utf-8"><body style="color-scheme: light dark">' + as_html(guide),
        encoding="utf-8",
    )

    def opened(**options):
        page = open_page(**options)
        page.goto(path.as_uri())
        return page

    return opened


def test_a_cell_tells_what_it_is_to_a_pointer_and_to_a_key(show, guide):
    page = show()
    note = page.locator("td.best [role=note]")
    assert not note.is_visible()
    page.hover("td.best")
    assert note.inner_text().startswith(guide.best.knobs)
    page.mouse.move(0, 0)
    assert not note.is_visible()
    page.focus("td.best")
    assert note.is_visible()
    assert page.problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_the_page_does_not_move_sideways(show, scheme):
    page = show(width=390, height=844, scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    look = page.evaluate("(({ backgroundColor, color }) => [backgroundColor, color])(getComputedStyle(" + PLAN + "))")
    light, dark = ["rgb(255, 255, 255)", "rgb(17, 17, 17)"], ["rgb(24, 24, 24)", "rgb(242, 242, 242)"]
    assert look == {"light": light, "dark": dark}[scheme]
