"""The judge's process is kept between two checks, and nothing of one is there in the next."""

import os
import random
import sys
import time
from pathlib import Path

import pytest

from gpipe_edu.judge import pool
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.judging import NotJudged
from gpipe_edu.process.packing import pack

pytestmark = pytest.mark.slow

CLOCK = find_exercise("ex02/clock")


def clock(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]


@pytest.fixture(autouse=True)
def _fresh():
    pool.close_idle()
    yield
    pool.close_idle()


def waiting():
    """The process that waits for another check."""
    [(_, one)] = pool._idle
    return one.pid


def test_the_second_check_is_judged_by_the_same_process():
    pool.judge_apart(CLOCK, pack(clock), 1)
    first = waiting()
    pool.judge_apart(CLOCK, pack(clock), 2)
    assert waiting() == first


def test_a_case_is_told_when_it_begins():
    told = []
    report = pool.judge_apart(CLOCK, pack(clock), 1, tell=lambda number, call: told.append((number, call)))
    assert [number for number, _ in told] == list(range(1, report.calls + 1))
    assert told[0][1].startswith("clock(")


def test_what_one_answer_has_done_the_next_does_not_find():
    def spoils(K, M):
        import numpy

        numpy.mine = 1
        return clock(K, M)

    def looks(K, M):
        import numpy

        return [] if hasattr(numpy, "mine") else clock(K, M)

    for function in (spoils, looks):
        assert pool.judge_apart(CLOCK, pack(function), 1).state == "passed"


def test_random_numbers_are_others_each_time():
    def draws(K, M):
        print(random.random())
        return clock(K, M)

    found = {pool.judge_apart(CLOCK, pack(draws), 1).printed for _ in range(2)}
    assert len(found) == 2


def test_it_runs_where_the_learner_is_now(tmp_path, monkeypatch):
    def reads(K, M):
        assert Path("mine.txt").read_text() == "here"
        return clock(K, M)

    pool.judge_apart(CLOCK, pack(clock), 1)
    first = waiting()
    (tmp_path / "mine.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    assert pool.judge_apart(CLOCK, pack(reads), 1).state == "passed"
    assert waiting() == first


def test_another_environment_is_another_process(monkeypatch):
    pool.judge_apart(CLOCK, pack(clock), 1)
    first = waiting()
    monkeypatch.setenv("OF_THE_LEARNER", "1")
    pool.judge_apart(CLOCK, pack(clock), 1)
    assert waiting() != first


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the judge's process is not forked")
def test_one_who_ends_the_judge_is_told_and_the_next_check_begins_anew():
    def kills(K, M):
        os.kill(os.getppid(), 9)
        time.sleep(600)

    with pytest.raises(NotJudged, match="its process was ended by signal 9"):
        pool.judge_apart(CLOCK, pack(kills), 1)
    assert pool._idle == []
    assert pool.judge_apart(CLOCK, pack(clock), 1).state == "passed"
