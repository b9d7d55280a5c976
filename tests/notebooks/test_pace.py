"""In the first evening's lessons a reader has something to do at once, and again every few minutes."""

import re

import pytest

from .test_standard import LESSONS, prose, read

FIRST_EVENING = [path for path in LESSONS if path.stem[:2] in ("00", "01", "02", "03")]
WORDS_A_MINUTE = 150
"""Slow, because the text is dense."""
SECONDS_A_LINE = 5
"""For a line of code."""
SECONDS_A_RESULT = 20
"""For what a cell shows."""
ACTION = re.compile(r"(?<![\w.])(predict|attempt)\(|\bge\.(puzzle|gantt)\(")
"""Something to choose, drag, draw, type, build or play."""


def minutes(cell):
    """How long one reads at a cell."""
    if cell.cell_type == "markdown":
        return len(prose(cell.source)) / WORDS_A_MINUTE
    return (len(cell.source.splitlines()) * SECONDS_A_LINE + SECONDS_A_RESULT) / 60


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
