"""A Python program in a process of its own: for what must not be loaded, and for what ends a process."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[1])
PATIENCE = 60
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


def until(true, seconds=PATIENCE):
    """Wait until `true()` is."""
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert true()
