"""In JupyterLab, what has the focus in a widget of ours holds back the notebook's keys, but those that run and save."""

import pytest

from . import chrome

pytestmark = pytest.mark.slow

CHART = "import gpipe_edu as ge\nge.gantt(ge.gpipe(3, 4))"
PUZZLE = "import gpipe_edu as ge\nge.puzzle()"
QUESTION = 'from gpipe_edu.course import predict\npredict("ex16/who-idles")'

RUNS = """() => jupyterapp.shell.currentWidget.content.widgets[0].model.executionCount"""
PLACES = {
    "play": (CHART, '[data-do="play"]'),
    "lanes": (CHART, ".ge-lanes"),
    "slider": (CHART, '.ge-controls input[type="range"][data-name="M"]'),
    "list": (CHART, '[data-name="schedule"]'),
    "puzzle": (PUZZLE, ".ge-lanes"),
    "question": (QUESTION, ".ge-prediction input"),
}


PLAYED = """() => document.querySelector('[data-do="play"]').textContent.includes('Pause') ||
    document.querySelector('.ge-scrub').value > 0"""
"""Where a page's frames come late, what plays has come to its end before anybody sees it play."""


@pytest.mark.sweep
@pytest.mark.parametrize("place", PLACES)
def test_the_keys_that_run_a_cell_do_so_from_anywhere_in_a_widget(lab, place):
    code, there = PLACES[place]
    page = lab.run_all(f"run-{place}", code, "1", given_back=place == "question")
    page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    for key, then in (("Control+Enter", 0), ("Shift+Enter" if place == "question" else "Alt+Enter", 1)):
        page.wait_for_selector(f".jp-OutputArea-output:not(.of-before) {there}", state="attached")
        page.evaluate("() => document.querySelector('.jp-OutputArea-output').classList.add('of-before')")
        was = page.evaluate(RUNS)
        if place == "play":
            page.click(there)
            page.wait_for_function(PLAYED)
        page.focus(there)
        page.keyboard.press(key)
        page.wait_for_function(f"(was) => ({RUNS})() > was", arg=was)
        page.wait_for_function("(then) => jupyterapp.shell.currentWidget.content.activeCellIndex === then", arg=then)
    assert chrome.our_problems(page) == []


@pytest.mark.sweep
@pytest.mark.parametrize("place", ["play", "slider", "puzzle"])
def test_shift_enter_in_a_widget_goes_on_to_the_next_cell_and_runs_nothing_again(lab, place):
    code, there = PLACES[place]
    page = lab.run_all(f"on-{place}", code, "2", "3")
    page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
    page.wait_for_selector(there, state="attached")
    page.evaluate("(there) => document.querySelector(there).classList.add('of-before')", there)
    was = page.evaluate(RUNS)
    page.click(there)
    page.wait_for_function("() => jupyterapp.shell.currentWidget.content.activeCellIndex === 0")
    page.focus(there)
    page.keyboard.press("Shift+Enter")
    page.wait_for_function("() => jupyterapp.shell.currentWidget.content.activeCellIndex === 1")
    page.keyboard.press("Shift+Enter")  # the second runs the cell that it went on to
    page.wait_for_function("() => jupyterapp.shell.currentWidget.content.activeCellIndex === 2")
    page.wait_for_function(
        "(was) => jupyterapp.shell.currentWidget.content.widgets[1].model.executionCount > was", arg=was + 1
    )
    assert page.evaluate(RUNS) == was
    assert page.locator(f"{there}.of-before").count() == 1
    assert chrome.our_problems(page) == []


def test_other_keys_are_still_held_back_and_a_key_that_nobody_takes_is_ours(lab):
    page = lab.run_all("held", CHART, "")
    page.focus('[data-do="play"]')
    before = chrome.cells(page)
    for key in ("a", "b", "d", "d"):
        page.keyboard.press(key)
    assert chrome.cells(page) == before
    page.keyboard.press("Control+s")
    page.wait_for_selector('[data-do="play"][data-lm-suppress-shortcuts="true"]')  # as it was before the key
    page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    page.keyboard.press("Enter")
    page.wait_for_function(PLAYED)
