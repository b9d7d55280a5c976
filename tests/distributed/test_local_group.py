"""A function in several processes: its values, its errors and its ends. Nothing hangs, and no process is left."""

import json
import os
import queue
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial

import pytest
import torch
import torch.distributed as dist

from gpipe_edu.distributed import LocalGroup, ProcessError, diary, local_group, run_processes
from gpipe_edu.distributed.diary import is_library_file
from gpipe_edu.process import child
from gpipe_edu.process.packing import Forwarded, pack
from tests.processes import PATIENCE, runs, until

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("preloaded_python")]

PYTHON = sys.executable
"""One that loads all by itself, whatever the tests here have set."""


@pytest.fixture(autouse=True)
def none_left(monkeypatch):
    """Every process that a test has started is gone when it ends."""
    started = []
    popen = subprocess.Popen

    def noted(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        return started[-1]

    monkeypatch.setattr(child.subprocess, "Popen", noted)
    yield started
    assert all(process.poll() is not None for process in started)


def call(function):
    return function()


def fails(function, K=2, seconds=20, error=ProcessError):
    with pytest.raises(error) as caught:
        run_processes(function, K, seconds)
    return caught.value


def test_processes_that_do_not_start_are_named(monkeypatch):
    monkeypatch.setattr(local_group, "_START", 0.0)
    error = fails(os.getpid, K=2)
    assert (error.reason, str(error)) == ("late", "process 0, process 1 did not start within 0 seconds")


def test_processes_may_wait_for_a_cpu_before_they_start(monkeypatch):
    """Longer than they may take to load: the first reports come late, and nothing is used up."""
    reports = iter([queue.Empty] * 3)
    next_of = LocalGroup._next

    def late(self, seconds):
        for error in reports:
            raise error
        return next_of(self, seconds)

    monkeypatch.setattr(LocalGroup, "_next", late)
    assert run_processes(abs, 2) == [0, 1]


def test_values_and_prints_come_back_in_order(capsys):
    def ring(k):
        buffer = torch.empty(3)
        handle = dist.isend(torch.full((3,), float(k)), (k + 1) % 3)
        dist.recv(buffer, (k - 1) % 3)
        handle.wait()
        print("I am", k)
        return buffer

    values = run_processes(ring, 3)
    assert [value.tolist() for value in values] == [[2.0] * 3, [0.0] * 3, [1.0] * 3]
    assert capsys.readouterr().out.splitlines() == [f"process {k}: I am {k}" for k in range(3)]


def test_a_neighbour_may_be_named_by_its_place_in_a_group():
    def work(k):
        group, value = dist.new_group([1, 0]), torch.full((1,), float(k))
        if k == 0:
            dist.send(value, group=group, group_dst=dist.get_group_rank(group, 1))
            dist.isend(value + 5, group=group, group_dst=dist.get_group_rank(group, 1)).wait()
            return None
        dist.recv(value, group=group, group_src=dist.get_group_rank(group, 0))
        other = torch.zeros(1)
        dist.irecv(other, group=group, group_src=dist.get_group_rank(group, 0)).wait()
        return [float(value), float(other)]

    assert run_processes(work, 2) == [None, [0.0, 5.0]]


def test_a_function_can_be_handed_on_unopened():
    def opened():
        return os.getpid()

    with LocalGroup() as group:
        assert os.getpid() not in group.run([partial(call, Forwarded(pack(opened).body))] * 2).values


def test_a_group_works_again_and_grows(none_left):
    with LocalGroup() as group:
        first = group.run([os.getpid, os.getpid]).values
        again = group.run([os.getpid] * 3).values
        assert again[:2] == first
        assert len(set(again)) == len(none_left) == 3


def test_what_is_judged_may_ask_and_comes_back_as_plain_data():
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    class OfMyOwn(Exception):
        pass

    def asks(k):
        from gpipe_edu.process.asking import ask_judge

        return ask_judge("what?"), Bomb()

    def raises():
        raise OfMyOwn("my words")

    with LocalGroup() as group:
        values = group.run([partial(asks, k) for k in range(2)], answer=lambda k, question: (k, question)).values
        with pytest.raises(RuntimeError, match="my words") as caught:
            group.run([raises], answer=lambda k, question: None)
    assert [value[0] for value in values] == [(0, "what?"), (1, "what?")]
    assert [value[1].type for value in values] == ["Bomb", "Bomb"]
    assert type(caught.value).__name__ == "OfMyOwn"


def test_a_process_that_asks_without_end_is_late(monkeypatch):
    monkeypatch.setattr(sys, "executable", PYTHON)  # the process that is watched is then the one that asks

    def asks():
        from gpipe_edu.process.asking import ask_judge

        while True:
            ask_judge("again")

    with LocalGroup() as group, pytest.raises(ProcessError, match="did not finish within 1 second") as caught:
        group.run([asks], 1, answer=lambda k, question: None)
    assert caught.value.reason == "late"


def test_after_a_failure_it_starts_new_ones():
    def bad(k):
        raise ValueError(f"no {k}")

    with LocalGroup() as group:
        with pytest.raises(ValueError, match="no"):
            group.run([lambda: bad(0), lambda: bad(1)])
        assert group.run([lambda: 1, lambda: 2]).values == [1, 2]


def test_the_function_s_own_error_comes_with_the_process_and_the_line():
    def stops(k):
        if k == 1:
            raise KeyError("lost")
        dist.recv(torch.empty(1), 1)

    error = fails(stops, error=KeyError)
    assert "in process 1" in error.__notes__[0]
    assert 'raise KeyError("lost")' in error.__notes__[0]


@pytest.mark.parametrize(("first", "expected"), [("send", "sends"), ("recv", "receives")])
def test_a_deadlock_is_seen_at_once_and_told(first, expected):
    def both(k):
        getattr(dist, first)(torch.zeros(2), 1 - k)

    started = time.monotonic()
    error = fails(both, seconds=PATIENCE)
    assert error.reason == expected
    assert "process 0 waits for" in str(error)
    assert "getattr(dist, first)" in str(error), "the line"
    assert time.monotonic() - started < PATIENCE / 2


def test_large_messages_wait_as_small_ones_do():
    def large(k):
        dist.send(torch.zeros(10**6), 1 - k)

    assert fails(large).reason == "sends"


def test_a_lost_message():
    def hasty(k):
        if k == 0:
            dist.isend(torch.zeros(2), 1)
        else:
            dist.recv(torch.zeros(2), 0)
            return
        dist.recv(torch.zeros(2), 1)

    assert fails(hasty).reason in ("lost", "returned")


def test_bytes_that_do_not_fit():
    def small(k):
        if k == 0:
            dist.send(torch.zeros(4), 1)
        else:
            dist.recv(torch.zeros(2), 0)

    assert "2 of float32" in str(fails(small)), "gloo tears the process down"

    def large(k):
        if k == 0:
            dist.send(torch.zeros(4), 1)
        else:
            dist.recv(torch.zeros(8), 0)

    assert fails(large).reason == "size", "gloo says nothing"


def test_an_exit_and_a_death_are_told():
    def leaves(k):
        if k == 1:
            sys.exit(3)
        dist.recv(torch.zeros(1), 1)

    assert "process 1 ended itself" in str(fails(leaves))

    def dies(k):
        if k == 1:
            os._exit(3)
        dist.recv(torch.zeros(1), 1)

    error = fails(dies)
    assert error.reason == "died"
    assert "process 1" in str(error)
    assert "status 3" in str(error)


def test_an_endless_loop_is_stopped_where_it_is(monkeypatch):
    monkeypatch.setattr(sys, "executable", PYTHON)  # whose stack holds no lines of tests

    def loops(k):
        while k == 1:
            pass

    error = fails(loops, seconds=2)
    assert (error.reason, error.seconds) == ("late", 2)
    assert "process 1 did not finish within 2 seconds" in str(error)
    assert "while k == 1:" in str(error) or "pass" in str(error)


def test_a_neighbour_that_is_not_there():
    def outside(k):
        dist.send(torch.zeros(1), k + 1)

    def lonely(k):
        dist.recv(torch.zeros(1), k)

    assert "no neighbour 2" in str(fails(outside, error=(ValueError,)))
    assert "no neighbour" in str(fails(lonely, error=(ValueError,)))


def test_a_gigabyte_of_output_fills_nothing(capsys):
    def prints(k):
        for _ in range(1000):
            print("x" * 10**6)
        return k

    assert run_processes(prints, 2) == [0, 1]
    assert len(capsys.readouterr().out) < 50_000


INTERRUPTED = textwrap.dedent("""
    import os, sys, time
    from gpipe_edu.distributed import run_processes

    def endless(k):
        print(os.getpid(), file=open(sys.argv[1] + str(k), "w"), flush=True)
        while True:
            time.sleep(0.01)

    try:
        run_processes(endless, 2, 600)
    except KeyboardInterrupt:
        print("interrupted")
""")


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, "interrupted\n"), (signal.SIGKILL, "")])
def test_an_interrupt_leaves_no_process(tmp_path, number, expected):
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED.replace("sys.argv[1]", repr(str(tmp_path / "pid"))))
    files = [tmp_path / "pid0", tmp_path / "pid1"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    environment = {**os.environ, "PYTHONPATH": root}
    with subprocess.Popen(
        [PYTHON, script], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        until(lambda: all(file.exists() and file.read_text().strip() for file in files))
        if number == signal.SIGINT:  # a terminal and Jupyter interrupt all that belongs to a process
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.communicate(timeout=PATIENCE)[0] == expected
    until(lambda: not any(runs(int(file.read_text())) for file in files))


def test_a_learner_s_file_in_a_clone_is_the_learner_s():
    """The clone's own folder has the package's name, as a rule."""
    assert not is_library_file("/home/ada/gpipe_edu/exercises/mine.py")
    for module in (diary, json, torch):
        assert is_library_file(module.__file__)
