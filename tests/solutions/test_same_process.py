"""The bank once more, judged in one process, as a browser does it: each answer of NumPy gets the same verdict."""

import pytest

from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.judge.judging import judge
from tests.amount import third

from .bank import bank
from .judged import NUMPY, task
from .shares import share_of

pytestmark = pytest.mark.slow

ENTRIES = [entry for key in NUMPY for entry in third(sorted(bank(key), key=lambda entry: (entry.slip, entry.name)))]


@pytest.mark.sweep
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.key} {entry.name}")
def test_an_answer_gets_its_verdict(entry):
    _, exercise, packed, seed = task(entry)
    if entry.slip not in ("endless", "every-cut"):  # a right one may take half its seconds even on an idle core
        exercise = exercise._replace(seconds=5 * exercise.seconds)
    report = judge(exercise, packed, seed, same_process=True)
    assert report.state == ("passed" if share_of(entry) else "wrong"), report
    assert [found.slip for found in report.findings][:1] == [entry.slip][: bool(entry.slip)], report


def test_what_needs_pytorch_has_more_than_the_usual_time():
    """For these alone a grader loads it."""
    assert {key for key, one in all_exercises().items() if not one.needs_torch} == {
        *NUMPY,
        "ex04/stage",
        "ex11/block",
        "ex11/order",
        "ex16/profile",
    }
