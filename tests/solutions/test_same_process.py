"""The bank once more, judged in one process, as a browser does it: each answer of NumPy gets the same verdict."""

import pytest

from gpipe_edu.exercises import find_exercise
from gpipe_edu.exercises.judging import judge
from gpipe_edu.process.packing import pack

from .bank import bank

SEED = 20181116
NUMPY = (
    "ex01/splitting",
    "ex02/clock",
    "ex02/f-then-b",
    "ex06/partition",
    "ex07/1f1b",
    "ex08/batchnorm",
    "ex09/early",
    "ex09/cap",
)
ENTRIES = [entry for key in NUMPY for entry in bank(key)]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.key} {entry.name}")
def test_an_answer_gets_its_verdict(entry):
    report = judge(find_exercise(entry.key), pack(entry.function), SEED, same_process=True)
    slip = report.finding.slip if report.finding else ""
    assert (report.state, slip) == ("wrong" if entry.slip else "passed", entry.slip), report.finding
