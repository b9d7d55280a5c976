"""A Python program in a process of its own: for what must not be loaded, and for what ends a process."""

import gc
import os
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

import psutil

ROOT = str(Path(__file__).resolve().parents[1])
PATIENCE = 600
"""Seconds after which something hangs; no test asserts that anything is faster than this."""


def printed(program, *arguments, ends=0, given="", **environment):
    """What a program prints that finds this package; it ends with the status `ends`."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": ROOT, **environment},
    )
    assert done.returncode == ends, done.stderr
    return done.stdout


def running(mark):
    """The processes whose environment names `mark`: that of the program it is, whatever it or a fork of it does."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat, environment = (Path(f"/proc/{name}/{part}").read_bytes() for part in ("stat", "environ"))
        except OSError:
            continue
        if os.fsencode(mark) in environment and stat.rpartition(b")")[2].split()[0] != b"Z":
            found.append(int(name))
    return found


def runs(pid):
    """Whether there is such a process that has not ended: one that has, but was not waited for, does not run."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all_since(moment):
    """End the processes that this one has started since then; a test that has failed leaves them to the next ones."""
    # The system counts from its start, to a hundredth of a second; when that was it knows to a second.
    moment += time.clock_gettime(time.CLOCK_BOOTTIME) - time.time() - 0.01
    children = psutil.Process().children(recursive=True)
    started = [child for child in children if child.create_time() - psutil.boot_time() >= moment]
    ours = {child.pid for child in started}
    for child in started:
        with suppress(psutil.NoSuchProcess):
            child.kill()
    for one in gc.get_objects():
        # Its type, not isinstance: that asks objects what they pretend to be, and some warn.
        if issubclass(type(one), Popen) and one.returncode is None and one.pid in ours:
            one.wait(PATIENCE)
            for pipe in filter(None, (one.stdin, one.stdout, one.stderr)):
                with suppress(OSError):
                    pipe.close()


def until(true, seconds=PATIENCE):
    """Wait until `true()` is, once: a file that is written again has nothing in it for a moment."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.05)
