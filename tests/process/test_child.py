"""A process that is started is heard, ends when it is told to or when we are gone, and leaves its last words."""

import faulthandler
import queue
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpipe_edu.process import child as child_module
from gpipe_edu.process import stack_on_timeout
from gpipe_edu.process.child import Child
from gpipe_edu.process.lines import Line
from tests.processes import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def started(monkeypatch, tmp_path, body, **environment):
    """A child that runs `body`, and the queue of what is heard from it."""
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    (tmp_path / "child_program.py").write_text(
        "import os, sys, time\nfrom gpipe_edu.process.parent import Parent\n"
        f"def main():\n    parent = Parent()\n    parent.listen()\n{indented}"
    )
    heard = queue.SimpleQueue()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = Child("child_program", heard.put, **environment)
    try:
        yield child, heard
    finally:
        child.close()


ECHO = "while True:\n    parent.say(parent.hear() + b'!')"


def test_it_answers(monkeypatch, tmp_path):
    with started(monkeypatch, tmp_path, ECHO) as (child, heard):
        for message in (b"", b"one", b"x" * 1_000_000):
            child.send(message)
            assert heard.get(timeout=PATIENCE) == message + b"!"
    assert heard.get(timeout=PATIENCE) is None


@pytest.mark.parametrize(("size", "heard_of"), [(4_000, 2), (1, 10)])
def test_one_that_says_too_much_is_killed(monkeypatch, tmp_path, size, heard_of):
    """However small its messages are: each takes the time to be read."""
    body = f"while True:\n    parent.say(b'x' * {size})"
    with started(monkeypatch, tmp_path, body, most=10_000) as (child, heard):
        assert [len(heard.get(timeout=PATIENCE)) for _ in range(heard_of)] == [size] * heard_of
        assert heard.get(timeout=PATIENCE) is None
        assert child.talked
        assert child.ended


def test_its_end_and_its_status_are_told(monkeypatch, tmp_path):
    with started(monkeypatch, tmp_path, "print('so long')\nos._exit(3)") as (child, heard):
        assert heard.get(timeout=PATIENCE) is None
        assert child.status() == 3
        assert child.last_line() == "so long"
        child.send(b"x" * 1_000_000)


def test_one_that_reads_nothing_keeps_nobody_waiting(monkeypatch, tmp_path):
    body = "import signal\nparent.say(b'there')\nos.kill(os.getpid(), signal.SIGSTOP)"
    with started(monkeypatch, tmp_path, body) as (child, heard):
        assert heard.get(timeout=PATIENCE) == b"there"
        child.send(b"x" * 1_000_000)
        with pytest.raises(queue.Empty):
            heard.get(timeout=0.5)
    assert heard.get(timeout=PATIENCE) is None


def test_one_that_has_hung_up_but_lives_is_ended(monkeypatch, tmp_path):
    with started(monkeypatch, tmp_path, "parent._answers.close()\ntime.sleep(600)") as (child, heard):
        assert heard.get(timeout=PATIENCE) is None
        assert child.status() == -9


def test_half_a_message_keeps_nobody_waiting(monkeypatch, tmp_path):
    body = "parent._answers.write(b'\\0' * 7)\nparent._answers.flush()\ntime.sleep(600)"
    with started(monkeypatch, tmp_path, body) as (_, heard), pytest.raises(queue.Empty):
        heard.get(timeout=2)
    assert heard.get(timeout=PATIENCE) is None


def test_a_module_beside_the_notebook_takes_no_other_s_place(monkeypatch, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "random.py").write_text("raise SystemExit('mine')")
    monkeypatch.chdir(beside)
    with started(monkeypatch, tmp_path, "import random\nparent.say(b'there')") as (_, heard):
        assert heard.get(timeout=PATIENCE) == b"there"


def test_it_has_one_thread_and_what_it_is_told(monkeypatch, tmp_path):
    body = "parent.say((os.environ['OMP_NUM_THREADS'] + os.environ['GLOO_SOCKET_IFNAME']).encode())"
    with started(monkeypatch, tmp_path, body, GLOO_SOCKET_IFNAME="lo") as (_, heard):
        assert heard.get(timeout=PATIENCE) == b"1lo"


LAST_WORDS = """
import os, signal
from gpipe_edu.process import stack_on_timeout

def inner():
    os.kill(os.getpid(), signal.SIGUSR1)

with stack_on_timeout.Prepared(60):
    inner()
os.kill(os.getpid(), signal.SIGUSR1)  # a question that comes late
"""


def test_last_words_are_read_outermost_first():
    command = [sys.executable, "-c", LAST_WORDS]
    dump = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=True).stderr
    assert stack_on_timeout.read(dump) == [Line("<string>", 9, "<module>"), Line("<string>", 6, "inner")]
    assert stack_on_timeout.text_before("Before.\n" + dump) == "Before.\n"
    assert stack_on_timeout.read("nothing of the kind") == []


def test_a_stack_is_complete_once_its_outermost_call_is_written():
    dump = subprocess.run([sys.executable, "-c", LAST_WORDS], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=True)
    lines = dump.stderr.splitlines(keepends=True)
    complete = [stack_on_timeout.is_complete("Before.\n" + "".join(lines[:count])) for count in range(len(lines) + 1)]
    assert complete == [False] * len(lines) + [True]
    deep = LAST_WORDS.replace("inner():\n", "inner(left=200):\n    if left: return inner(left - 1)\n")
    dump = subprocess.run([sys.executable, "-c", deep], cwd=ROOT, stderr=subprocess.PIPE, text=True, check=True)
    assert stack_on_timeout.is_complete(dump.stderr)


SLOW_TO_BEGIN = """
from gpipe_edu.process import stack_on_timeout
stack_on_timeout._SIGNAL = None
parent.say(b'there')
with stack_on_timeout.Prepared(0.5):
    while True: here = 1
"""


def test_without_signals_the_last_words_of_one_that_began_late_are_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(stack_on_timeout, "_SIGNAL", None)
    monkeypatch.setattr(child_module, "_FAREWELL", PATIENCE)
    with started(monkeypatch, tmp_path, SLOW_TO_BEGIN.strip()) as (child, heard):
        assert heard.get(timeout=PATIENCE) == b"there"
        files = [Path(line.file).name for line in child.last_words()]
        assert "child_program.py" in files


def test_without_signals_a_stack_is_due_when_all_blocks_together_have_lasted_so_long(monkeypatch):
    due = []
    monkeypatch.setattr(stack_on_timeout, "_SIGNAL", None)
    monkeypatch.setattr(faulthandler, "dump_traceback_later", lambda seconds, **_: due.append(seconds))
    stack = stack_on_timeout.Prepared(60)
    with stack:
        time.sleep(0.2)
    with stack:
        pass
    assert due[0] == 60
    assert due[1] <= 59.8
