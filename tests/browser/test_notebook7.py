"""Notebook 7 takes keys for itself unless a widget says otherwise: ours reach the chart, and only the chart."""

import shutil
from pathlib import Path

import pytest

from tests import processes

from . import chrome

pytestmark = pytest.mark.slow

ROOT = Path(processes.ROOT)


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


FIRST_UNRUN = """() => jupyterapp.shell.currentWidget.content.widgets
    .findIndex(({ model }) => model.type === "code" && model.executionCount === null)"""
RUN_FROM = """async (index) => {
    jupyterapp.shell.currentWidget.content.activeCellIndex = index;
    await jupyterapp.commands.execute("notebook:run-all-below");
}"""
ERRORS = """() => jupyterapp.shell.currentWidget.content.widgets
    .flatMap(({ model }) => (model.type === "code" ? model.outputs.toJSON() : []))
    .filter(({ output_type }) => output_type === "error")"""


def test_a_lesson_runs_to_its_end_question_after_question(notebook):
    """Each open question gives back the cells behind it; one runs on from there."""
    lesson = ROOT / "notebooks" / "00_start_here.ipynb"
    shutil.copy(lesson, notebook.folder)
    page = notebook.run_all(lesson.stem, given_back=True)
    questions = lesson.read_text(encoding="utf-8").count('"predict(')
    for _ in range(questions + 1):
        unrun = page.evaluate(FIRST_UNRUN)
        if unrun == -1:
            break
        page.evaluate(RUN_FROM, unrun)
    assert page.evaluate(FIRST_UNRUN) == -1
    assert page.evaluate(ERRORS) == []
    assert page.locator(".ge-prediction").count() == questions
    assert chrome.our_problems(page) == []
