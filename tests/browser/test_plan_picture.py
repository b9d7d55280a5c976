"""The picture of a plan in a browser: a cell tells what it is when one points at it, and nothing is lost on a phone.

Its sliders: by keyboard alone, one answer at a time, in both themes.
"""

import pytest

from gpipe_edu.sizing import Planner, presets
from gpipe_edu.sizing.page.picture import as_html
from gpipe_edu.view.theme import THEME

from . import chrome
from .kernel import Kernel

pytestmark = pytest.mark.slow

PLAN = "document.querySelector('.gpipe-plan')"


@pytest.fixture(scope="module")
def guide():
    return Planner(presets.job(presets.model("gpt2-xl"), 64, "rtx4090", 4))


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


class TestSliders:
    @pytest.fixture
    def kernel(self, guide, open_page, tmp_path):
        def opened(**options):
            return Kernel(open_page(**options), guide.explore(), tmp_path / "sliders.html", ready=".gpipe-plan")

        return opened

    def test_a_key_asks_for_another_plan(self, kernel):
        asked = kernel()
        page = asked.page
        devices = page.get_by_role("slider", name="devices")
        assert devices.get_attribute("aria-valuetext") == "4"
        opened = page.locator("summary").last.inner_text()
        page.locator("summary").last.click()
        devices.focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("h4:has-text('on 8 devices')")
        assert page.inner_text("[role=status]").endswith("% MFU (planned).")
        assert devices.get_attribute("aria-valuetext") == "8"
        assert devices.evaluate("each => each === document.activeElement")
        assert page.locator("details[open] summary").all_inner_texts() == [opened], "what was opened stays open"
        for name in ("link between nodes", "batch"):
            page.keyboard.press("Tab")
            assert page.get_by_role("slider", name=name).evaluate("each => each === document.activeElement")
        focusable = page.locator("input, summary")
        assert focusable.count() == page.locator("[data-lm-suppress-shortcuts=true]").count() == 4
        assert page.problems == []

    def test_of_what_is_wanted_while_one_is_planned_the_last_alone_follows(self, kernel):
        asked = kernel()
        page = asked.page
        asked.busy = True
        page.get_by_role("slider", name="batch").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
            page.keyboard.press(key)
        assert page.inner_text("[role=status]") == "Planning \u2026"
        assert page.locator(".ge-picture").get_attribute("aria-busy") == "true"
        asked.wake()
        page.wait_for_selector("h4:has-text('N=32,')")
        page.wait_for_selector(".ge-picture:not([aria-busy])")
        batches = [each["content"]["wish"]["batch"] for each in asked.sent if "content" in each]
        assert batches == [4, 2]
        assert page.get_by_role("slider", name="batch").get_attribute("aria-valuetext").startswith("32 (")

    def test_without_a_kernel_it_says_so_and_keeps_its_picture(self, kernel):
        page = kernel().page
        page.evaluate("() => { kernel = () => { throw new Error('gone'); }; }")
        page.get_by_role("slider", name="batch").focus()
        page.keyboard.press("ArrowRight")
        assert "run this cell again" in page.inner_text("[role=status]")
        assert page.locator("td.best").count() == 1

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_it_fits_a_phone_and_takes_the_theme(self, kernel, scheme):
        page = kernel(width=390, height=844, scheme=scheme).page
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        paper = page.evaluate(f"getComputedStyle({PLAN}).backgroundColor")
        assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(24, 24, 24)"}[scheme]

    def test_in_a_notebook_no_key_reaches_its_cells(self, lab):
        code = "from gpipe_edu.sizing import guide, presets\njob = presets.job(presets.model('gpt2'), 8, 'small', 2)"
        page = lab.run_all("sliders", f"{code}\nguide(job).explore()", "")
        page.wait_for_selector(".gpipe-plan")
        before = chrome.cells(page)
        page.get_by_role("slider", name="devices").focus()
        for key in ("j", "a", "d", "d", "ArrowRight"):
            page.keyboard.press(key)
        page.wait_for_selector("h4:has-text('on 4 devices')")
        assert chrome.cells(page) == before
        assert chrome.our_problems(page) == []
