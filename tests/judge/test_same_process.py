"""Where there is no other process: what the judge gets is what the sandbox gives, and the notebook is as it was."""

import builtins
import itertools
import linecache
import sys
import warnings

import numpy as np
import pytest

import gpipe_edu
from gpipe_edu.judge import pool
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.learner_process import LearnerProcess
from gpipe_edu.judge.same_process import SameProcess
from gpipe_edu.process.packing import pack

MODULE = "gpipe_edu.judge.tasks.ex01_splitting.perform"


def ask(function, seconds=30, times=1, asked=SameProcess):
    with asked(MODULE, pack(function), seconds) as place:
        answers = [place(batch=np.arange(4), M=2) for _ in range(times)]
    return answers[-1], place


def returns_what_is_no_plain_data(batch, M):
    return [batch, {M: (1.5, object)}]


def changes_its_input(batch, M):
    batch[0] = 7
    return [batch.sum()]


def breaks(batch, M):
    return np.concatenate([batch], axis="nonsense")


def exits(batch, M):
    sys.exit(3)


def prints(batch, M):
    print("hello")
    return []


def asks(batch, M):
    return input("?")


def is_missing_something(batch, M):
    return nothing_of_the_kind  # noqa: F821


@pytest.mark.parametrize(
    "function",
    [returns_what_is_no_plain_data, changes_its_input, breaks, exits, prints, is_missing_something],
    ids=lambda function: function.__name__,
)
def test_it_answers_as_the_sandbox_does(function):
    (here, place), (there, sandbox) = ask(function), ask(function, asked=LearnerProcess)
    assert repr(here) == repr(there)
    assert place.printed == sandbox.printed


def test_nobody_is_asked_anything():
    assert ask(asks)[0].trouble.kind == "EOFError"


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n        pass",
        "return [x for x in itertools.count()]",
        "while True:\n        try:\n            batch.sum()\n        except Exception:\n            pass",
    ],
)
def test_an_endless_loop_is_ended_where_it_is_and_not_begun_again(body):
    space = {"itertools": itertools, "__name__": "__main__"}
    text = f"def function(batch, M):\n    {body}\n"
    name = "the cell"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), space)
    answer, _ = ask(space["function"], seconds=0.3, times=3)
    assert (answer.trouble.kind, answer.trouble.seconds) == ("stopped", 0.3)
    assert answer.trouble.where[-1].text in body


def test_printing_without_end_is_ended():
    def function(batch, M):
        while True:
            print("x" * 1_000_000)

    answer, place = ask(function, times=2)
    assert (answer.trouble.kind, answer.trouble.message) == ("printed", "50 MB")
    assert 0 < len(place.printed) <= 2000


def test_what_gives_the_answer_away_is_hidden_from_the_function_alone():
    given = []

    def function(batch, M):
        given.append(1)
        return gpipe_edu.split_batch(batch, M)

    before = gpipe_edu.split_batch
    answer, _ = ask(function)
    assert "is not available in this exercise: write `" in answer.trouble.message
    assert gpipe_edu.split_batch is before
    assert [len(piece) for piece in gpipe_edu.split_batch(np.arange(4), 2)] == [2, 2]
    assert given == [], "the function is a copy, and so is what it uses"


def test_the_notebook_is_as_it_was():
    class Stage:
        kept = 1

    def function(batch, M):
        Stage.kept = 2
        return [Stage.kept]

    before = (sys.gettrace(), sys.stdout, sys.stderr, builtins.input, warnings.formatwarning)
    assert ask(function)[0].value[0] == [2]
    assert (sys.gettrace(), sys.stdout, sys.stderr, builtins.input, warnings.formatwarning) == before
    assert Stage.kept == 1


def test_in_a_browser_it_is_what_judges(monkeypatch):
    monkeypatch.setattr(sys, "platform", "emscripten")
    monkeypatch.setattr(pool, "Worker", None)

    def split(batch, M):
        return [batch] * M

    assert pool.judge_apart(find_exercise("ex01/splitting"), pack(split), 1).finding.slip == "not-cut"
