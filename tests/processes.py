"""A Python program in a process of its own: for what must not be loaded, and for what ends a process."""

import os
import subprocess
import sys
import textwrap
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
