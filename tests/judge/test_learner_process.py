"""Whatever a learner's function does, the judge gets an answer in time, and nothing is left running."""

import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from functools import partialmethod
from itertools import count

import numpy as np
import pytest

from gpipe_edu.judge import learner_process
from gpipe_edu.judge.case import Exam, Wrong
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import GROWS, Reply, Trouble
from gpipe_edu.judge.learner_process import LearnerProcess, MachineBusy
from gpipe_edu.process.packing import pack
from gpipe_edu.process.resource_limits import MEMORY
from gpipe_edu.process.time_limit import TimeLimit, is_stopped
from tests.processes import runs, until

pytestmark = pytest.mark.slow

MODULE = "gpipe_edu.judge.tasks.ex01_splitting.perform"


def ask(function, seconds=30, times=1, module=MODULE):
    with LearnerProcess(module, pack(function), seconds) as sandbox:
        answers = [sandbox(batch=np.arange(4), M=2) for _ in range(times)]
    return answers[-1], sandbox


def trouble(function, seconds=30, **options):
    return ask(function, seconds, **options)[0].trouble


def test_a_value_comes_back_with_the_input_as_it_is_afterwards():
    def function(batch, M):
        batch[0] = 7
        return [batch.sum(), M]

    (value, after), found, _ = ask(function)[0]
    assert found is None
    assert value == [13, 2]
    assert after[0] == 7


def test_an_endless_loop_is_stopped_where_it_is():
    def function(batch, M):
        while True:
            pass

    found = trouble(function, seconds=1)
    assert found.kind == "stopped"
    assert found.seconds == 1
    assert found.where[0].text in ("while True:", "pass")


def test_a_deadlock_is_stopped():
    def function(batch, M):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    found = trouble(function, seconds=1)
    assert (found.kind, found.where[-1].text) == ("stopped", "lock.acquire()")


def test_one_that_has_stopped_itself_is_ended_whatever_it_is_asked(tmp_path):
    """A question that a pipe does not hold is never read, and must not be waited for."""

    def function(batch, M):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        mark.write_text(str(os.getpid()))
        return [M]

    mark = tmp_path / "pid"
    with LearnerProcess(MODULE, pack(function), 1) as sandbox:
        assert sandbox(batch=np.arange(4), M=2).value[0] == [2]
        until(lambda: is_stopped(int(mark.read_text())))
        assert sandbox(batch=np.zeros(100_000), M=2).trouble.kind == "stopped"


def test_after_it_was_stopped_it_is_not_asked_again():
    def function(batch, M):
        time.sleep(600)

    answer, _ = ask(function, seconds=0.5, times=5)
    assert answer.trouble.kind == "stopped"


@pytest.mark.parametrize(
    ("name", "kind"), [("sys.exit", "exit"), ("os._exit", "ended"), ("kill", "ended"), ("raise", "KeyboardInterrupt")]
)
def test_exits_are_told_from_errors(name, kind):
    def function(batch, M):
        if name == "sys.exit":
            sys.exit(0)
        if name == "os._exit":
            os._exit(0)
        if name == "kill":
            os.kill(os.getpid(), 9)
        raise KeyboardInterrupt

    assert trouble(function).kind == kind


def test_an_error_names_the_learner_s_lines_and_no_others():
    def inner(x):
        return np.concatenate(x, axis="nonsense")

    def function(batch, M):
        return inner([batch])

    found = trouble(function)
    assert found.kind == "TypeError"
    assert [line.text for line in found.where] == [
        "return inner([batch])",
        'return np.concatenate(x, axis="nonsense")',
    ]


def test_much_output_fills_nothing():
    def function(batch, M):
        for _ in range(40):
            print("x" * 1_000_000)
        return [1]

    answer, sandbox = ask(function)
    assert answer.value[0] == [1]
    assert len(sandbox.printed) <= 2000


def test_output_without_end_is_stopped_before_time_is_up():
    def function(batch, M):
        while True:
            print("x" * 1_000_000)

    answer, sandbox = ask(function, seconds=60, times=2)
    assert (answer.trouble.kind, answer.trouble.message) == ("printed", "50 MB")
    assert 0 < len(sandbox.printed) <= 2000


def test_prints_and_garbage_on_standard_output_do_not_mix_with_answers():
    def function(batch, M):
        os.write(1, b"\x00" * 100)
        print("hello")
        return [M]

    answer, sandbox = ask(function)
    assert answer.value[0] == [2]
    assert "hello" in sandbox.printed


def test_a_warning_comes_without_the_place_it_came_from():
    def function(batch, M):
        warnings.warn("use another one", stacklevel=2)
        return [M]

    answer, sandbox = ask(function)
    assert answer.value[0] == [2]
    assert sandbox.printed == "use another one\n"


def test_garbage_where_the_answers_go_is_no_answer():
    def function(batch, M):
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, b"\x00\x00\x00\x00\x00\x00\x00\x04junk")
            except OSError:
                continue
        return [M]

    assert trouble(function, seconds=3).kind in ("unreadable", "ended", "stopped")


def test_after_garbage_it_is_asked_no_more():
    """Its next answer would be taken for one to the next question."""

    def function(batch, M):
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, b"\x00\x00\x00\x00\x00\x00\x00\x04junk")
                break
            except OSError:
                continue
        return [M]

    assert ask(function)[0].trouble.kind == "unreadable"
    assert ask(function, times=2)[0].trouble.kind == "unreadable"


def test_input_is_at_its_end():
    assert trouble(lambda batch, M: input("?")).kind == "EOFError"


def test_its_children_end_with_it(tmp_path):
    mark = tmp_path / "pid"

    def function(batch, M):
        child = os.fork()
        if child == 0:
            for _ in count():
                time.sleep(0.1)
        mark.write_text(str(child))
        time.sleep(600)

    assert trouble(function, seconds=1).kind == "stopped"
    until(lambda: not runs(int(mark.read_text())))


def test_what_starts_too_many_processes_is_told_so_and_they_end(tmp_path):
    def function(batch, M):
        for _ in range(40):
            if os.fork() == 0:
                (tmp_path / str(os.getpid())).touch()
                break
        time.sleep(600)

    found = trouble(function, seconds=600)
    assert (found.kind, found.message) == ("crowd", "24")
    until(lambda: not any(runs(int(path.name)) for path in tmp_path.iterdir()))


def test_folders_within_folders_are_too_much_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def function(batch, M):
        os.chdir(os.environ["TMPDIR"])
        for _ in range(5_000):
            os.mkdir("d")
            os.chdir("d")
        time.sleep(600)

    assert trouble(function).kind == "MemoryError"
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_cannot_begin_is_no_verdict_on_the_answer(tmp_path):
    (tmp_path / "broken.py").write_text("raise SystemExit('no room for it')")
    with pytest.raises(MachineBusy, match=r"^the process for the answer could not begin: no room for it$"):
        LearnerProcess("broken", pack(lambda batch, M: [M]), 30, [str(tmp_path)]).__enter__()


@pytest.fixture
def not_looked_at(monkeypatch):
    """What a process holds, so that only its own limit counts."""
    monkeypatch.setattr(learner_process, "_RUNAWAY", 2**60)


def test_what_takes_far_more_memory_than_right_answers_is_stopped_at_once():
    def appends(batch, M):
        kept = []
        while True:
            kept.append([len(kept)])

    found = trouble(appends, seconds=600)
    assert (found.kind, found.message) == ("stopped", GROWS)
    assert found.where[-1].text.strip() in ("while True:", "kept.append([len(kept)])")


def test_memory_without_end_becomes_an_error(not_looked_at):
    def function(batch, M):
        kept = []
        while True:
            kept.append(bytearray(2**28))

    assert trouble(function, seconds=90).kind == "MemoryError"


def test_a_loop_that_appends_without_end_takes_memory_whatever_ends_it(monkeypatch, tmp_path):
    """Its time, the error, or that not even the error could be told."""
    begun, looked = tmp_path / "begun", tmp_path / "looked"

    def appends(batch, M):
        kept = []
        while True:
            kept.append([len(kept)])

    def ends(batch, M):
        begun.touch()
        until(looked.exists)
        os.abort()

    def look(limit, held):
        limit.largest = held
        if begun.exists():
            looked.touch()

    found = trouble(appends, seconds=3)
    assert (found.kind, found.message) == ("stopped", GROWS)
    for held, kind in ((MEMORY // 4, "ended"), (MEMORY, "MemoryError")):
        with monkeypatch.context() as patch:
            patch.setattr(TimeLimit, "look", partialmethod(look, held=held))
            assert trouble(ends).kind == kind
        begun.unlink()
        looked.unlink()
    exam = Exam(find_exercise("ex01/splitting"), lambda **given: Reply(), 0)
    for told in [
        found,
        Trouble("MemoryError", "", bases=("MemoryError",)),
        Trouble("_ArrayMemoryError", "Unable to allocate 8 TiB", bases=("_ArrayMemoryError", "MemoryError")),
        Trouble("RuntimeError", "std::bad_alloc", bases=("RuntimeError",)),
        Trouble("RuntimeError", "DefaultCPUAllocator: can't allocate memory", bases=("RuntimeError",)),
    ]:
        with pytest.raises(Wrong) as wrong:
            exam.case().fail(told)
        assert wrong.value.finding.slip == "memory", told


def test_an_answer_that_fits_only_once_becomes_an_error(not_looked_at):
    def function(batch, M):
        return [np.zeros(MEMORY // 2, dtype=np.uint8)]

    found = trouble(function, seconds=90)
    assert found.kind == "MemoryError"
    assert found.message == "the answer is too large to be handed over"


def test_memory_without_end_becomes_an_error_where_torch_is_loaded(not_looked_at):
    pytest.importorskip("torch")

    def function(batch, M):
        import torch

        kept = []
        while True:
            kept.append(torch.ones(2**28, dtype=torch.uint8))

    found = trouble(function, seconds=90)
    assert found.kind == "RuntimeError"
    assert "allocate memory" in found.message


def test_a_name_that_could_not_come_along_is_explained():
    lock = threading.Lock()
    space = {"lock": lock}
    exec("def function(batch, M):\n    return lock", space)
    assert "it is a lock of your notebook" in trouble(space["function"]).message


class Guarded:
    lock = threading.Lock()


def test_a_name_in_a_class_that_could_not_come_along_is_explained():
    def function(batch, M):
        return Guarded().lock

    found = trouble(function)
    assert found.kind == "AttributeError"
    assert "it is a lock of your notebook" in found.message
    assert "your notebook" not in trouble(lambda batch, M: (Guarded, batch.lock)).message


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("ex01_splitting", "gpipe_edu.split_batch(np.arange(4), 2)"),
        ("ex01_splitting", "sys.modules['gpipe_edu.split.microbatch'].split_batch(np.arange(4), 2)"),
        ("ex07_1f1b", "gpipe_edu.one_f_one_b(2, 4)"),
        ("ex07_1f1b", "gpipe_edu.schedule.recipes.RECIPES['1f1b'](2, 4)"),
        ("ex07_1f1b", "gpipe_edu.schedule.recipes.by_name('1f1b', 2, 4)"),
        ("ex02_f_then_b", "gpipe_edu.schedule.recipes.by_name('gpipe', 2, 4)"),
        ("ex09_early", "gpipe_edu.schedule.recipes.by_name('gpipe-early', 2, 4)"),
    ],
)
def test_what_gives_the_answer_away_is_not_there_under_any_name(module, path):
    space = {"path": path}
    exec("def function(*given):\n    import sys, gpipe_edu, numpy as np\n    return eval(path)", space)
    given = {"ex01_splitting": {"batch": np.arange(4), "M": 2}}.get(module, {"K": 2, "M": 4})
    with LearnerProcess(f"gpipe_edu.judge.tasks.{module}.perform", pack(space["function"]), 30) as sandbox:
        found = sandbox(**given).trouble
    assert found is not None
    assert "is not available in this exercise: write `" in found.message


def test_an_error_without_words_is_that_error():
    class Mute(Exception):
        def __str__(self):
            raise SystemExit

    class Wrong(Exception):
        def __str__(self):
            return 7

    for kind, why in ((Mute, "SystemExit"), (Wrong, "TypeError")):

        def function(batch, M, kind=kind):
            raise kind

        found = trouble(function)
        assert (found.kind, found.message) == (kind.__name__, f"(its own text can't be had: {why})")


def test_names_and_words_of_any_length_are_shortened():
    class Text(str):
        def __getitem__(self, part):
            return self

    def raises(batch, M):
        class Long(Exception):
            def __str__(self):
                return Text("y" * 20_000_000)

        Long.__name__ = "x" * 20_000_000
        raise Long

    def returns(batch, M):
        return type("z" * 20_000_000, (), {})()

    found = trouble(raises)
    assert len(found.kind) == 200
    assert len(found.message) == 1000
    assert all(len(name) <= 200 for name in found.bases)
    (value, _), *_ = ask(returns)[0]
    assert len(value.type) <= 200
