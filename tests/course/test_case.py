"""What a case makes of an error of the learner's code."""

from typing import NamedTuple

import pytest

from gpipe_edu.judge.case import Exam, Wrong
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Reply, Trouble, Unwritten
from gpipe_edu.process.lines import Line

EXAM = Exam(find_exercise("ex10/processes"), None)


class Question(NamedTuple):
    K: int
    steps: int = 2


class Answer(NamedTuple):
    loss: float
    steps: list


def ask(reply, asked=None):
    def answer(_, **given):
        if asked is not None:
            asked.append(given)
        return reply

    exam = Exam(find_exercise("ex04/checkpoint"), answer)
    return exam.case().ask_for(Answer, Question(3), {"TypeError: not callable": "called-too-early"})


def test_a_question_goes_by_the_names_of_its_fields_and_its_answer_comes_back_in_order():
    asked = []
    assert ask(Reply((0.5, [1])), asked=asked) == Answer(loss=0.5, steps=[1])
    assert asked == [{"K": 3, "steps": 2}]
    with pytest.raises(TypeError):  # which the judge calls strange
        ask(Reply((0.5,)))


def test_what_cannot_be_judged_further_ends_the_exam_even_where_it_is_a_broken_promise():
    said = {"slip": "mode-changed", "expected": "a tensor", "came": "a list", "charts": [1], "shows": False}
    assert said["slip"] in find_exercise("ex04/checkpoint").promises
    with pytest.raises(Wrong) as caught:
        ask(Reply(said))
    finding = caught.value.finding
    assert (finding.slip, finding.expected, finding.came, finding.charts) == (*list(said.values())[:3], ())


def test_a_trap_may_name_the_message_of_an_error():
    for message, slip in (("not callable", "called-too-early"), ("no", "arguments")):
        with pytest.raises(Wrong) as caught:
            ask(Reply(trouble=Trouble("TypeError", message)))
        assert caught.value.finding.slip == slip


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
