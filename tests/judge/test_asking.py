"""What runs inside may ask the judge, and gets answers for as long as it has time."""

import subprocess
from itertools import count
from math import inf
from threading import Thread
from time import monotonic, sleep

import pytest

from gpipe_edu.judge import learner_process
from gpipe_edu.judge.learner_process import LearnerProcess
from gpipe_edu.judge.same_process import SameProcess
from gpipe_edu.process import time_limit
from gpipe_edu.process.packing import pack
from gpipe_edu.process.time_limit import TimeLimit
from tests.processes import ROOT

from .asker import __name__ as MODULE

pytestmark = pytest.mark.slow


def add(question):
    return sum(question)


def twice(ask, a, b):
    return ask((ask((a, b)), b))


@pytest.mark.parametrize("kind", [LearnerProcess, SameProcess])
def test_a_question_is_answered_by_the_judge(kind):
    with kind(MODULE, pack(twice), 10, [ROOT]) as sandbox:
        assert sandbox(add, a=1, b=2).value == 5
        assert sandbox(add, a=2, b=2).value == 6


def test_threads_ask_one_at_a_time():
    def in_threads(ask):
        found = [None] * 8

        def work(number):
            found[number] = [ask((number, more)) for more in range(30)]

        threads = [Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    with LearnerProcess(MODULE, pack(in_threads), 30, [ROOT]) as sandbox:
        assert sandbox(add).value == [[number + more for more in range(30)] for number in range(8)]


def test_one_who_only_asks_is_stopped(monkeypatch):
    monkeypatch.setattr(learner_process, "_SAID", inf)

    def without_end(ask):
        while True:
            ask((1, 2))

    with LearnerProcess(MODULE, pack(without_end), 0.5, [ROOT]) as sandbox:
        assert sandbox(add).trouble.kind == "stopped"


def test_one_who_asks_too_often_is_stopped(monkeypatch):
    def without_end(ask):
        while True:
            ask((1, 2))

    monkeypatch.setattr(learner_process, "_SAID", 300_000)
    with LearnerProcess(MODULE, pack(without_end), 30, [ROOT]) as sandbox:
        kind, message, *_ = sandbox(add).trouble
    assert (kind, message) == ("MemoryError", "what it hands over is more than 0.3 MB")


def test_one_who_asks_where_nothing_is_to_be_asked_is_ended():
    with LearnerProcess(MODULE, pack(lambda ask: ask((1, 2))), 10, [ROOT]) as sandbox:
        assert sandbox().trouble.kind == "unreadable"


def test_to_ask_now_and_then_gains_little_time(monkeypatch):
    """On a busy machine it may ask for longer, as what waits for a CPU has its time: here none is taken to wait."""
    monkeypatch.setattr(time_limit, "_QUEUES_ARE_TOLD", True)
    for waits in ("_queued", "_is_awake"):
        monkeypatch.setattr(time_limit, waits, lambda pid: 0)
    monkeypatch.setattr(time_limit, "_own_time", lambda: 0)

    def now_and_then(ask):
        import time

        while True:
            time.sleep(0.09)
            ask((1, 2))

    asked = []
    with LearnerProcess(MODULE, pack(now_and_then), 2, [ROOT]) as sandbox:
        assert sandbox(lambda question: asked.append(question) or add(question)).trouble.kind == "stopped"
    assert len(asked) < 150, "two seconds hold 22 questions, and as much again is excused; 38 s hold 400"


def is_over_after(looks, answered=False):
    """Whether 0.3 seconds are over for a process that sleeps, after so many looks at it, a tenth of a second apart."""
    with subprocess.Popen(["sleep", "60"]) as process:
        limit = TimeLimit(lambda: [process.pid], 0.3)
        limit.begin()
        for _ in range(looks):
            sleep(0.1)
            if answered:
                limit.answered()
            limit.look()
        process.kill()
        return limit.over


def test_one_who_works_a_little_between_two_looks_has_slept_for_the_rest(monkeypatch):
    worked = count()
    monkeypatch.setattr(time_limit, "_cpu", lambda pid: next(worked) / 1000)
    assert is_over_after(4)


@pytest.mark.parametrize(("idle", "over"), [(0, False), (2, True)], ids=["all are busy", "two CPUs are idle"])
def test_where_threads_are_not_told_one_who_uses_no_cpu_sleeps_only_while_a_cpu_is_idle(monkeypatch, idle, over):
    monkeypatch.setattr(time_limit, "_QUEUES_ARE_TOLD", False)
    monkeypatch.setattr(time_limit, "_is_awake", lambda pid: False)
    monkeypatch.setattr(time_limit, "_idle", lambda: idle * monotonic())
    assert is_over_after(4) == over


def test_what_is_said_of_an_error_is_cut_to_length():
    def at_length(ask):
        from gpipe_edu.process import plain

        said = '{"tuple": [null, {"tuple": ["KIND", "KIND", {"list": []}, {"list": ["KIND"]}]}]}'
        plain.encode = lambda value: said.replace("KIND", "x" * 100_000).encode()

    with LearnerProcess(MODULE, pack(at_length), 10, [ROOT]) as sandbox:
        kind, message, _, bases, _ = sandbox(add).trouble
    assert (len(kind), len(message), list(map(len, bases))) == (200, 1000, [200])


def test_sleep_until_the_judge_has_answered_does_not_count():
    with subprocess.Popen(["sleep", "60"]) as process:
        limit = TimeLimit(lambda: [process.pid], 0.3)
        limit.begin()
        sleep(0.4)
        limit.answered()
        limit.look()
        assert not limit.over
        sleep(0.4)
        limit.look()
        assert limit.over
        process.kill()


@pytest.mark.parametrize(("waited", "over"), [(0, True), (1, False)], ids=["the judge was idle", "it waited for a CPU"])
def test_sleep_while_the_judge_itself_waits_for_a_cpu_does_not_count(monkeypatch, waited, over):
    """Hundreds of questions, each answered late, would add up to more than the answers have."""
    monkeypatch.setattr(time_limit, "_own_time", lambda: waited * monotonic())
    assert is_over_after(10, answered=True) == over


def test_a_question_that_the_judge_cannot_answer_ends_it():
    def nonsense(ask):
        ask("none")

    with LearnerProcess(MODULE, pack(nonsense), 10, [ROOT]) as sandbox:
        assert sandbox(add).trouble.kind == "unreadable"
        assert sandbox(add).trouble.kind == "unreadable"
