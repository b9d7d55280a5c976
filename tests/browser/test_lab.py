"""The charts in a real JupyterLab: controls, keys, two charts on one axis."""

import pytest

from tests.amount import third

from . import chrome, servers

pytestmark = pytest.mark.slow

EXPLORER = ("explorer", "import gpipe_edu as ge\nw = ge.gantt(ge.gpipe(4, 8))\nw", "")
COMPARE = ("compare", "import gpipe_edu as ge\nw = ge.gantt(ge.gpipe(4, 8), ge.one_f_one_b(4, 8))\nw", "")


def test_a_key_on_a_control_asks_the_kernel_and_redraws(lab):
    page = lab.run_all(*EXPLORER)
    page.wait_for_selector(".ge-base rect", state="attached")
    assert "33" in page.inner_text(".ge-figures")
    page.focus('.ge-controls input[type="range"][data-name="M"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('36')")
    assert chrome.our_problems(page) == []


def test_what_is_not_allowed_is_said_in_the_widget(lab):
    page = lab.run_all(*EXPLORER)
    box = page.locator('.ge-controls input[type="number"][data-name="K"]')
    box.fill("0")
    box.press("Enter")
    page.wait_for_selector(".ge-error:not([hidden])")
    assert "K" in page.inner_text(".ge-error")
    assert "Traceback" not in page.inner_text("body")
    assert "33" in page.inner_text(".ge-figures"), "the last chart stays"


def test_keys_move_through_the_chart_and_make_no_cells(lab):
    page = lab.run_all(*COMPARE)
    page.wait_for_selector(".ge-base rect", state="attached")
    assert page.locator(".ge-panel").count() == 2
    before = chrome.cells(page)
    page.focus(".ge-lanes")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".ge-explain").strip()
    for key in ("a", "b", "j", "d", "d"):
        page.keyboard.press(key)
    assert chrome.cells(page) == before
    assert chrome.our_problems(page) == []


def test_a_chart_that_is_run_by_hand_is_in_view_and_no_other_moves_the_notebook(lab):
    above = "from IPython.display import HTML\nHTML('<div style=\"height: 3000px\"></div>')"
    page = lab.run_all("tall", above, EXPLORER[1], *["1"] * 30)
    page.wait_for_selector(".ge-base rect", state="attached")
    page.click(".jp-Cell:nth-of-type(1) .jp-InputArea-editor")
    page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    shown = """() => {
        const chart = document.querySelector('.ge-gantt').getBoundingClientRect();
        const seen = document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect();
        return Math.min(chart.bottom, seen.bottom) - Math.max(chart.top, seen.top) - chart.height;
    }"""
    page.evaluate("() => document.querySelector('.ge-gantt').classList.add('of-before')")
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".ge-gantt:not(.of-before) .ge-base rect", state="attached")
    page.wait_for_function(f"() => ({shown})() > -1")


def test_the_chart_is_saved_as_files(lab, tmp_path):
    page = lab.run_all(*COMPARE)
    for kind, head in (("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!doctype html>")):
        with page.expect_download() as download:
            page.select_option("[data-save]", kind)
        download.value.save_as(tmp_path / kind)
        assert download.value.suggested_filename == f"gpipe-1f1b.{kind}"
        assert (tmp_path / kind).read_bytes()[: len(head)].lower() == head.lower()
    assert page.input_value("[data-save]") == ""


def test_after_a_restart_the_explorer_says_run_this_cell_again_and_contradicts_nothing(lab):
    page = lab.run_all(*EXPLORER)
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_for_function(
        "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.connectionStatus === 'connected'"
    )
    page.select_option('[data-name="schedule"]', "1f1b")
    page.wait_for_function("() => document.querySelector('.ge-error').innerText.includes('run this cell again')")
    assert page.input_value('[data-name="schedule"]') == "gpipe", "the list says what the chart shows"
    assert page.inner_text(".ge-title").startswith("gpipe")
    assert chrome.our_problems(page) == []


@pytest.mark.parametrize(("width", "closed"), third([(1366, True), (1500, False)]))
def test_the_list_of_files_starts_closed_on_a_small_screen_and_opens_when_asked(jupyter, open_page, width, closed):
    folder, address = jupyter
    servers.notebook(folder, "narrow", "1")
    page = open_page(width, 700)
    page.goto(f"{address}/lab/tree/narrow.ipynb?token={servers.TOKEN}&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.wait_for_function(f"() => jupyterapp.shell.leftCollapsed === {str(closed).lower()}")
    page.wait_for_timeout(1500)  # JupyterLab opens it by itself a while after it has opened the notebook
    assert page.evaluate("() => jupyterapp.shell.leftCollapsed") == closed
    if closed:
        page.click('.jp-SideBar.jp-mod-left [data-id="filebrowser"]')
        page.wait_for_selector(".jp-DirListing-item")
        page.evaluate("() => jupyterapp.commands.execute('filebrowser:activate')")
        page.wait_for_timeout(300)
        assert page.is_visible(".jp-DirListing-item"), "from then on it is the reader's"
