"""Notebook 7 takes keys for itself unless a widget says otherwise: ours reach the chart, and only the chart."""

from . import chrome


def test_keys_reach_the_chart_and_never_the_notebook(notebook):
    page = notebook.run_all("explorer", "import gpipe_edu as ge\nge.gantt(ge.gpipe(3, 4))", "")
    page.wait_for_selector(".ge-base rect", state="attached")
    before = chrome.cells(page)
    page.focus(".ge-lanes")
    told = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
        told.append(page.inner_text(".ge-explain"))
    assert len(set(told)) == len(told), "every key moves to another op"
    for key in ("j", "a", "b", "d", "d"):
        page.keyboard.press(key)
    assert chrome.cells(page) == before
    assert chrome.our_problems(page) == []
