"""Every lesson's claims name cells of the lesson, in its order, and a claim that doesn't hold says what, where and why.

That the claims hold is asked while nbval runs the lessons (lesson_claims.py).
"""

import re

import pytest

from .lesson_claims import CLAIMS, claims, hold
from .test_standard import LESSONS, cells, every_lesson, every_notebook


@every_notebook
def test_each_block_of_claims_names_a_cell_of_its_notebook_in_order(path):
    ids = [cell.id for cell in cells(path, "code")]
    named = list(claims(path.stem))
    assert named == sorted(named, key=ids.index)


def test_there_are_no_claims_without_a_notebook():
    notebooks = {path.stem for path in LESSONS} | {"schedule_puzzles"}
    assert {path.stem for path in CLAIMS.glob("*.py")} == notebooks


@every_lesson
def test_a_lesson_makes_claims(path):
    assert sum(len(re.findall(r"^ *assert ", block, re.MULTILINE)) for block in claims(path.stem).values()) >= 8


def test_a_block_keeps_its_place_in_its_file():
    lines = (CLAIMS / "03_scheduling.py").read_text(encoding="utf-8").splitlines()
    for cell, block in claims("03_scheduling").items():
        first = next(number for number, line in enumerate(block.splitlines()) if line)
        assert lines[first - 1] == f"# %% {cell}"
        assert lines[first] == block.splitlines()[first]


def test_claims_see_the_lesson_and_leave_nothing_in_it():
    lesson = {"time": 33}
    hold("\n\nassert time == 33\nmine = time", lesson)
    assert lesson == {"time": 33}


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ("\n\nassert time == 32", "3: assert time == 32\nThe values: 33, 32"),
        ("for M in (1, 2):\n    assert M < 2 < time", "2: assert M < 2 < time\nThe values: 2, 2, 33"),
        ("assert not time", "1: assert not time"),
        ("\nassert late > 1", "2: assert late > 1\nNameError: name 'late' is not defined"),
    ],
)
def test_a_claim_that_does_not_hold_is_told_with_its_line_and_values(block, told):
    with pytest.raises(AssertionError) as failed:
        hold(block, {"time": 33})
    assert str(failed.value) == told
