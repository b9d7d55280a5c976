"""What an answer's own process tells is no proof: what runs, the judge knows from layers and stamps of its own."""

import pytest

pytest.importorskip("torch")

from gpipe_edu.course.cut_answer import Answer
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.pool import Task
from gpipe_edu.teaching.authoring.verdicts import SEED

from .forged import FORGED

pytestmark = pytest.mark.slow


@pytest.mark.sweep
@pytest.mark.parametrize(("key", "name"), FORGED)
def test_a_forged_report_gets_nothing(key, name, worker):
    exercise = find_exercise(key)
    packed = Answer("cut", exercise.function, (("cell", 1, FORGED[key, name]),)).pack()
    report = worker.report(Task(name, exercise, packed, SEED))
    assert report.state == "wrong"
    assert report.finding.slip not in ("error", "exit", "strange"), report.finding  # it was refused for what it does
