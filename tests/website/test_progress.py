"""The page of progress: it counts in the browser what `progress()` counts in Python, from the same file."""

import json
import random

import pytest

from gpipe_edu.base import store
from gpipe_edu.course import challenge
from gpipe_edu.course.predictions import question
from gpipe_edu.course.progress import Progress
from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.puzzles import LEVELS
from gpipe_edu.puzzles.share import share
from tests.browser import chrome
from tests.puzzles.solutions import solved
from tests.website.conftest import handed_out
from website import course_progress, in_page, pages

pytestmark = pytest.mark.slow

ASKED = {key: question.find(key) for number in range(16) for key in question.keys(f"{number:02}")}
PASSED = {"tries": 2, "tries_at_hint": 0, "hints": 0, "seen": [], "passed": "2026-11-23"}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    out = tmp_path_factory.mktemp("progress")
    (out / "assets").mkdir()
    in_page.write_assets(out / "assets")
    pages.write_scripts(out / "assets", [])
    pages.write_page(out / "progress.html", "Your progress", course_progress.page())
    begin = '<a id="begin" href="x">Start</a>' + course_progress.script(course_progress.count())
    pages.write_page(out / "index.html", "Front", begin)
    with handed_out(out) as found:
        yield found


@pytest.fixture
def page(new_context, address):
    with chrome.pages(new_context) as open_one:
        page = open_one(390, 800)
        page.goto(f"{address}progress.html")
        page.wait_for_selector("#way:not(:empty)")
        yield page
        assert page.problems == []


def some_of_it(seed):
    """A learner's file with a part of what there is to do: of the first lessons, and by chance; 1 is all of it."""
    chosen = random.Random(seed)

    def some(keys):
        return [key for key in keys if seed == 1 or (chosen.random() < 0.8 and not f"{seed:02}" <= key < "16")]

    boards = {key: solved(key) for key in some(level.key for level in LEVELS)}
    return {
        "predictions": {key: ASKED[key].read(ASKED[key].solution()) for key in some(ASKED)},
        "challenges": dict.fromkeys(some(challenge.challenges()), "solved"),
        "exercises": dict.fromkeys(some(all_exercises()), PASSED),
        "puzzle": {
            key: {"makespan": board.score.makespan, "hints": 0, "share": share(board.level, board.rows)}
            for key, board in boards.items()
        },
    }


def load(page, tmp_path, sections, name="progress.json"):
    file = tmp_path / name
    file.write_text(json.dumps(sections), encoding="utf-8")
    page.set_input_files("#load", file)
    page.wait_for_selector(f"#said:has-text('{name}')")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [3, 0, 1, 8, 16])
def test_it_counts_as_python_does(page, tmp_path, monkeypatch, seed, address):
    sections = some_of_it(seed) if seed else {"predictions": {}}
    monkeypatch.setenv("GPIPE_EDU_HOME", str(tmp_path))
    store.path().write_text(json.dumps(sections), encoding="utf-8")
    python = Progress()
    load(page, tmp_path, sections)
    for state in python.lessons:
        row = page.locator(f'[data-lesson="{state.lesson.number}"]')
        assert bool(row.locator(".done").inner_text()) == state.done, state
        made = state.counts.split(",")[0] + (";" + state.counts.split(";")[1] if ";" in state.counts else "")
        assert row.locator(".how").inner_text() == made
    for exercise, state in python.rows:
        row = page.locator(f'[data-exercise="{exercise.key}"]')
        assert row.locator(".how").inner_text() == (f"solved {state['passed']}" if state["passed"] else "")
    assert page.inner_text("#levels") == f"{python.puzzles} of {len(LEVELS)} levels solved"
    words = "All lessons are done"
    if python.here:
        begun = any(state.begun for state in python.lessons)
        words = f"{'Go on with' if begun else 'Start with'} lesson {python.here.lesson.number}"
    assert page.inner_text("#way").startswith(words)
    page.goto(f"{address}index.html")
    page.wait_for_selector(f"#begin:has-text('{words}')")
    if python.here:
        assert page.get_attribute("#begin", "href") == f"notebooks/{python.here.lesson.notebook}.html"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_is_solved_but_for_a_promise_is_shown_so(page, tmp_path):
    load(
        page, tmp_path, {"exercises": {"ex01/splitting": PASSED | {"but": True}, "ex02/clock": PASSED | {"but": False}}}
    )
    how = {key: page.inner_text(f'[data-exercise="{key}"] .how') for key in ("ex01/splitting", "ex02/clock")}
    told = f"solved {PASSED['passed']}"
    assert how == {"ex01/splitting": f"{told}, but for a promise", "ex02/clock": told}


def test_a_file_that_is_loaded_counts_beside_what_was_there_and_what_is_saved_is_both(page, tmp_path):
    load(page, tmp_path, {"predictions": {"00/gradients": "A"}, "exercises": {"ex01/splitting": PASSED}})
    load(page, tmp_path, {"predictions": {"00/gradients": "B", "00/step-end": "C"}, "challenges": {}}, "other.json")
    with page.expect_download() as saved:
        page.click("#save")
    kept = json.loads(saved.value.path().read_text(encoding="utf-8"))
    assert saved.value.suggested_filename == "progress.json"
    assert kept["predictions"] == {"00/gradients": "A", "00/step-end": "C"}, "the first answer counts"
    assert kept["exercises"] == {"ex01/splitting": PASSED}
    page.reload()
    page.wait_for_selector('[data-exercise="ex01/splitting"] .done:has-text("\u2713")')


@pytest.mark.sweep
@pytest.mark.parametrize("text", ["{broken", "[]", "3", "null", '{"about": "words"}'])
def test_another_file_changes_nothing_and_it_says_so(page, tmp_path, text):
    load(page, tmp_path, {"exercises": {"ex01/splitting": PASSED}})
    file = tmp_path / "notes.json"
    file.write_text(text, encoding="utf-8")
    page.set_input_files("#load", file)
    page.wait_for_selector("#said:has-text('notes.json holds no progress of this course: nothing was changed.')")
    page.reload()
    page.wait_for_selector('[data-exercise="ex01/splitting"] .done:has-text("\u2713")')


def test_nothing_is_saved_of_nothing(page):
    page.click("#save")
    page.wait_for_selector("#said:has-text('There is nothing to save yet.')")


def test_forgetting_takes_two_clicks(page, tmp_path):
    load(page, tmp_path, {"exercises": {"ex01/splitting": PASSED}})
    page.click("#forget")
    assert page.inner_text("#forget") == "Really forget all of it?"
    assert page.inner_text('[data-exercise="ex01/splitting"] .done') == "\u2713"
    page.click("#forget")
    page.wait_for_selector("#said:has-text('Forgotten.')")
    page.reload()
    page.wait_for_selector("#way:has-text('Start with lesson 00')")
    assert page.inner_text('[data-exercise="ex01/splitting"] .done') == ""
