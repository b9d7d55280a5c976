"""What a case makes of an error of the learner's code."""

import pytest

from gpipe_edu.exercises import find_exercise
from gpipe_edu.exercises.case import Exam, Wrong
from gpipe_edu.process.lines import Line
from gpipe_edu.sandbox.findings import Trouble, Unwritten

EXAM = Exam(find_exercise("ex10/processes"), None)


def not_implemented(function, text, message=""):
    return Trouble(
        "NotImplementedError", message, (Line("cell", 1, "run_stage", "helper()"), Line("cell", 9, function, text))
    )


def test_the_stub_of_a_function_that_other_processes_call_is_no_answer():
    with pytest.raises(Unwritten):
        EXAM.case().fail(not_implemented("run_stage", "raise NotImplementedError"))


@pytest.mark.parametrize(
    "trouble",
    [
        not_implemented("helper", "raise NotImplementedError"),
        not_implemented("run_stage", "torch.missing()"),
        not_implemented("run_stage", 'raise NotImplementedError("no layers")', "no layers"),
        Trouble("NotImplementedError", 'Module [ModuleList] is missing the required "forward" function'),
    ],
)
def test_another_error_of_that_type_is_an_error(trouble):
    with pytest.raises(Wrong) as caught:
        EXAM.case().fail(trouble)
    assert caught.value.finding.slip == "error"
