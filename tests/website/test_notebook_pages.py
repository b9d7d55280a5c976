"""Every notebook's page with Python in it, in a real browser: all its cells run, and exercises are solved in place."""

import json
import re
import time

import pytest

from gpipe_edu.course.building.build import notebook_text
from gpipe_edu.course.building.percent_format import solution_of
from gpipe_edu.judge.exercise import find_exercise
from tests.solutions.bank import bank
from tests.solutions.typed import typed
from tests.website.conftest import ROOT, TIMES
from website.live.lazy_modules import ARCHIVES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("with_lab")]

PAGES = [f"{part}/{path.stem}" for part in ("notebooks", "exercises") for path in sorted((ROOT / part).glob("*.ipynb"))]

RUN = """async ([limit]) => {
  for (const button of document.querySelectorAll("button.unfold")) button.click();
  const found = [];
  for (const section of document.querySelectorAll("section.cell")) {
    const run = section.querySelector("[data-do=run]");
    if (!run) continue;
    const stands = section.querySelector(".stands");
    const began = performance.now();
    run.click();
    while (!/^(ran|ended|not yet)/.test(stands.textContent) && performance.now() - began < limit * 1000)
      await new Promise((done) => setTimeout(done, 10));
    const said = [...section.querySelectorAll(".outputs .error")].map((node) => node.textContent).join("\\n");
    found.push([section.ariaLabel, stands.textContent, (performance.now() - began) / 1000, said]);
  }
  return found;
}"""
"""Gives for each cell with a Run button: its name, how it ended, seconds, and its error."""

KEPT = """([cell, code]) =>
  Object.keys(localStorage).some((key) => key.endsWith(` ${cell}`) && localStorage[key] === code)"""
LIMIT = 600
"""Seconds that a cell may take on a busy machine."""


@pytest.mark.parametrize("name", PAGES)
def test_all_cells_run(address, open_page, name):
    page = open_page(1366, 768)
    page.goto(f"{address}{name}.html")
    began = time.monotonic()
    cells = page.evaluate(RUN, [LIMIT])
    slowest = max(cells, key=lambda cell: cell[2], default=("none", "", 0, ""))
    TIMES[f"{name}: {len(cells)} cells run"] = (
        f"{time.monotonic() - began:.1f} s; the slowest is {slowest[0]}, {slowest[2]:.1f} s"
    )
    failed = {cell: said or state for cell, state, _, said in cells if state != "ran"}
    if name.startswith("exercises"):
        failed = {cell: said for cell, said in failed.items() if "not written" not in said and "not yet" not in said}
    assert failed == {}
    assert page.problems == []


WRONG = {
    "ex01/splitting": "floor_size",
    "ex02/clock": "waits_a_tick_for_the_message",
    "ex02/f-then-b": "one_after_the_other",
    "ex04/stage": "Replaces",
    "ex06/partition": "even_counts",
    "ex07/1f1b": "alternates_from_the_start",
    "ex08/batchnorm": "plain_means",
    "ex09/early": "checkpointed_backwards",
    "ex09/cap": "recomputes_late",
}
"""The tasks that need no PyTorch, each with a wrong answer of its bank."""


@pytest.mark.parametrize("key", WRONG)
def test_an_exercise_is_solved_on_its_page(address, open_page, key):
    page = open_page(1366, 768)
    exercise = find_exercise(key)
    page.goto(f"{address}exercises/{exercise.notebook}.html")
    page.evaluate("for (const button of document.querySelectorAll('button.unfold')) button.click()")
    answer = page.locator(f'section.cell[data-exercise="{key}"]')
    judge = page.locator(f'section.cell[data-cell="{answer.get_attribute("data-check")}"]')
    wrong = next(entry for entry in bank(key) if entry.name == WRONG[key])

    type_and_check(answer, typed(wrong, exercise.function))
    said = verdict(judge)
    assert f"{key}: not yet. " in said
    assert re.search(plain(exercise.slips[wrong.slip]), said)
    assert answer.locator(".solved").is_hidden()

    master = json.loads(notebook_text(ROOT / "solutions" / f"{exercise.notebook}.py", marked=True))
    cells = {cell["id"]: "".join(cell["source"]) for cell in master["cells"]}
    began = time.monotonic()
    type_and_check(answer, solution_of(cells[answer.get_attribute("data-cell")]))
    judge.locator(".outputs:has-text('passed, ')").wait_for()
    said = verdict(judge)
    TIMES[f"{key}: the verdict on a right answer"] = f"{time.monotonic() - began:.1f} s"
    assert f"{key}: passed, " in said
    assert "not yet" not in said
    answer.locator(".solved").wait_for()
    assert page.problems == []


def test_an_endless_answer_is_ended_by_its_check(address, open_page):
    page = open_page(1366, 768)
    page.goto(f"{address}exercises/exercise_01_splitting.html")
    answer = page.locator('section.cell[data-exercise="ex01/splitting"]')
    judge = page.locator(f'section.cell[data-cell="{answer.get_attribute("data-check")}"]')
    type_and_check(answer, "def split(batch, M):\n    while True:\n        pass")
    judge.locator(".taken:has-text('Python is several times slower in a browser')").wait_for()
    said = verdict(judge)
    assert "It was stopped after 12 seconds, for all calls together" in said
    assert re.search("line [23] in split:", said)
    assert judge.locator(".taken").inner_text() == ""
    assert page.problems == []


def type_and_check(answer, code):
    """Type `code` into an exercise's cell and press Check."""
    if answer.locator(".editor").count() == 0:
        answer.locator('[data-do="edit"]').click()
    answer.locator(".cm-content").fill(code)
    answer.page.wait_for_function(KEPT, arg=[answer.get_attribute("data-cell"), code])
    answer.locator('[data-do="check"]').click()


def verdict(judge):
    """What the cell that checks shows when it has run."""
    judge.locator(".stands:text-matches('^ran$|^ended|^not yet$')").wait_for()
    return judge.locator(".outputs").inner_text()


def plain(sentence):
    """A pattern for the sentence as a page shows it, with anything in the place of what is filled in."""
    return re.sub(r"\\{\w+\\}", ".+", re.escape(sentence.replace("`", "")))


IMPORTS = """
import calendar, csv, email.generator, logging.handlers, unittest.mock, xml.dom.minidom
import numpy.polynomial, gpipe_edu.teaching.lecture
from gpipe_edu import sizing
try:
    "x".encode("nonsense")
except LookupError as error:
    print(error, "café".encode("cp1252"))
"""


def test_what_is_left_out_of_a_page_is_there_when_it_is_imported(address, open_page):
    page = open_page(1366, 768)
    asked = []
    page.context.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.goto(f"{address}notebooks/00_start_here.html")
    cell = page.locator("section.cell").first
    cell.locator('[data-do="edit"]').click()
    cell.locator(".cm-content").fill("1 + 1")
    cell.locator('[data-do="run"]').click()
    cell.locator(".value:text-is('2')").wait_for()
    assert not {"python_stdlib.zip", *ARCHIVES}.intersection(asked)
    cell.locator(".cm-content").fill(IMPORTS)
    cell.locator('[data-do="run"]').click()
    cell.locator(".stdout, .error").wait_for()
    shown = cell.locator(".outputs").inner_text().strip()
    assert shown == "unknown encoding: nonsense b'caf\\xe9'"
    assert page.problems == []
