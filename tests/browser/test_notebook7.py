"""Notebook 7 takes keys for itself unless a widget says otherwise: ours reach the chart, and only the chart."""

import pytest

from . import chrome, servers


@pytest.fixture(scope="module")
def address(folder):
    if chrome.path() is None:
        pytest.skip("the browser tests need Chromium: apt-get install chromium")
    pytest.importorskip("notebook", reason="this test needs Notebook 7: pip install -r requirements-dev.txt")
    servers.notebook(folder, "explorer", "import gpipe_edu as ge\nge.gantt(ge.gpipe(3, 4))", "")
    with servers.jupyter(folder, "notebook") as found:
        yield found


def test_keys_reach_the_chart_and_never_the_notebook(address, open_page):
    page = open_page()
    chrome.run_all(page, address, "explorer", app="notebook")
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
