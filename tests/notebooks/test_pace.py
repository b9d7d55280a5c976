"""A lesson says how long it takes, and in those of the first evening there is something to do every few minutes.

How long a lesson takes is worked out from what it holds, in one way for all: nobody has timed enough readers to state a
measured figure.
"""

import ast
import re

import pytest

from gpipe_edu.course import challenge
from gpipe_edu.course.lessons import THREAD
from gpipe_edu.course.predictions import question
from tests.each import each

from .test_standard import EXTRA, LESSONS, ROOT, folded, prose, read

COURSE = ROOT / "docs" / "course.md"
FIRST_EVENING = [path for path in LESSONS if path.stem[:2] in ("00", "01", "02", "03")]
WORDS_A_MINUTE = 130
"""Slow, because the text is dense."""
SECONDS_A_LINE = 5
"""For a line of code."""
SECONDS_A_RESULT = 20
"""For what a cell shows."""
PREDICTION, PLAY = 1, 5
"""Minutes for a question, and for a puzzle, a challenge or a problem."""
RUNS = {"06": 1, "08": 1, "12": 2, "15": 1}
"""Minutes for which one waits for the cells of a lesson, all together, where that is half a minute and more."""
NEAR = 5
"""So many minutes may be stated more or less than worked out; stated are fives."""
ACTION = re.compile(r"(?<![\w.])(predict|attempt)\(|\bge\.(puzzle|gantt)\(")
"""Something to choose, drag, draw, type, build or play."""
ASKED = re.compile(r"(?<![\w.])predict\(\"")
KEYS = re.compile(r"(?<![\w.])(?:predict|attempt)\(\"([^\"]+)")
PLAYED = re.compile(r"(?<![\w.`])attempt\(|\bge\.puzzle\(|^##+ Challenge", re.MULTILINE)


def shows(cell):
    """Whether a code cell prints, plots or ends with something to look at."""
    body = ast.parse(re.sub(r"^[%!]", "#", cell.source, flags=re.MULTILINE)).body
    inside = [each for node in body for each in ast.walk(node)]
    plain = any(isinstance(node, ast.Expr) for node in body)
    return plain or any(isinstance(each, ast.Call) and ast.unparse(each.func) == "print" for each in inside)


def minutes(cell):
    """How long one reads at a cell."""
    if cell.cell_type == "markdown":
        return len(prose(cell.source)) / WORDS_A_MINUTE
    lines = 0 if folded(cell) else len(cell.source.splitlines())
    return (lines * SECONDS_A_LINE + shows(cell) * SECONDS_A_RESULT) / 60


def worked_out(path):
    """The minutes that a lesson takes, up to its optional part and for that; none is 0."""
    taken, part = [RUNS.get(path.stem[:2], 0), 0], 0
    for cell in read(path).cells:
        part = part or int(bool(cell.cell_type == "markdown" and EXTRA.search(cell.source)))
        asked = cell.cell_type == "code" and ASKED.search(cell.source)
        taken[part] += PREDICTION if asked else minutes(cell)
        taken[part] += PLAY * len(PLAYED.findall(cell.source))
    return taken


def stated_minutes(path):
    """Those that the first cell states: of the lesson, and of what one may leave out."""
    time = re.search(r"\*\*Time\*\* (.*?)\. ", read(path).cells[0].source)[1]
    return [int(number) for number in re.findall(r"\d+", time)]


@each("path", LESSONS)
def test_the_minutes_stated_are_those_worked_out(path):
    stated = stated_minutes(path)
    needed = worked_out(path)
    assert all(number % 5 == 0 for number in stated), stated
    assert len(stated) == 1 + bool(needed[1])
    assert all(abs(said - found) < NEAR for said, found in zip(stated, needed, strict=False)), (stated, needed)


def test_the_hours_of_the_thread_are_those_of_its_lessons():
    minutes_of = {path.stem[:2]: stated_minutes(path)[0] for path in LESSONS}
    ideas, work = (sum(minutes_of[number] for number in part) / 60 for part in (THREAD[:9], THREAD[9:]))
    problems = len(THREAD) * 3 * PLAY / 60
    for text in (read(FIRST_EVENING[0]).cells[2].source, COURSE.read_text(encoding="utf-8")):
        said = re.search(r"14 \(([\d.]+) hours\).*15 \(([\d.]+) hours\).*take (\d)\s+hours", text, re.DOTALL).groups()
        assert [float(hours) for hours in said] == pytest.approx([ideas, work, problems], abs=0.3)


@each("path", LESSONS)
def test_sittings_add_up_to_the_whole(path):
    sittings = re.search(r"In \w+ sittings: (.*?)\. ", read(path).cells[0].source)
    assert not sittings or sum(map(int, re.findall(r"\((\d+)", sittings[1]))) == stated_minutes(path)[0]


@each("path", LESSONS)
def test_what_one_may_leave_out_keeps_no_lesson_open(path):
    keys, extra = {False: set(), True: set()}, False
    for cell in read(path).cells:
        extra = extra or bool(cell.cell_type == "markdown" and EXTRA.search(cell.source))
        if cell.cell_type == "code":
            keys[extra].update(KEYS.findall(cell.source))
    number = path.stem[:2]
    optional = {*filter(question.optional, question.keys(number))}
    optional |= {*filter(challenge.optional, challenge.challenges(f"{number}/"))}
    assert keys[True] == optional
    assert keys[False] | optional == {*question.keys(number), *challenge.challenges(f"{number}/")}


def waits(path):
    """The minutes of reading before each action, and behind the last."""
    found = [0.0]
    for cell in read(path).cells:
        if cell.cell_type == "code" and ACTION.search(cell.source):
            found.append(0.0)
        else:
            found[-1] += minutes(cell)
    return found


def test_lesson_00_begins_with_something_to_do_within_two_minutes():
    assert waits(FIRST_EVENING[0])[0] <= 2


@pytest.mark.parametrize("path", FIRST_EVENING, ids=lambda path: path.stem)
def test_there_is_something_to_do_every_six_minutes(path):
    assert max(waits(path)) <= 6, [round(wait, 1) for wait in waits(path)]


def test_the_puzzle_levels_stand_where_their_idea_is_met():
    asked = {
        path.stem[:2]: re.findall(r'ge\.puzzle\("([\w-]+)"', "\n".join(cell.source for cell in read(path).cells))
        for path in LESSONS
    }
    assert asked["00"] == ["first-dependency"]
    assert asked["01"] == ["pipelining"]
    assert asked["03"] == ["memory-wall", "1f1b"]
    assert "recompute-early" in asked["05"]
    assert asked["09"]


def test_the_list_in_lesson_00_is_complete():
    text = "\n".join(cell.source for cell in read(FIRST_EVENING[0]).cells)
    for path in LESSONS[1:]:
        assert f"]({path.name})" in text, path.name
    assert "](schedule_puzzles.ipynb)" in text
    for exercise in sorted((FIRST_EVENING[0].parents[1] / "exercises").glob("exercise_*.ipynb")):
        assert f"](../exercises/{exercise.name})" in text, exercise.name
