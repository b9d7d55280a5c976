"""How long a class takes to grade: to the first row, in all, and of the processors.

Why: a teacher waits for it. The class has the course's own solutions, right answers that nobody else has, answers of
the bank of wrong ones, stubs and hostile answers; equal ones are judged once. The clock also counts what others do
on this machine, so read the seconds of CPU, and the load beside them.

    python -m benchmarks.grading    # 40 students: all exercises with one seed, and those without torch with three
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.measuring import machine
from gpipe_edu.judge.exercise import all_exercises
from tests.grading.school import fill, keys_of

JOBS: Final = 2
LIGHT: Final = ("01", "02", "06", "07", "09")
"""Exercises that need no PyTorch."""


class Took(NamedTuple):
    """first, all: seconds on the clock. cpu: seconds of all processes. judged: how many answers, once for each seed,
    and again those that build on a wrong one."""

    first: float
    all: float
    cpu: float
    judged: int


def grade(place: Path, out: Path, keys: tuple[str, ...], seeds: int) -> Took:
    wish = ["--tasks", ",".join(keys), "--seeds", str(seeds), "--jobs", str(JOBS)]
    command = [sys.executable, "-m", "gpipe_edu", "grade", str(place), "--out", str(out), *wish]
    first, judged, began = 0.0, 0, time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if " judged," in line and not first:
                first = time.monotonic() - began
            if "to judge" in line:
                judged += int(line.split()[0].replace(",", ""))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"grading ended with status {process.returncode}")
    return Took(first, time.monotonic() - began, used.ru_utime + used.ru_stime, judged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=40)
    students = parser.parse_args().students
    rounds = {
        "all exercises, one seed": (tuple(all_exercises()), 1),
        "light exercises, three seeds": (keys_of(LIGHT), 3),
    }
    print(f"{machine()}, {students} students, --jobs {JOBS}")
    print(f"{'':<30} {'answers':>8} {'judged':>7} {'first row s':>12} {'all s':>8} {'CPU s':>8} {'load':>6}")
    for name, (keys, seeds) in rounds.items():
        with tempfile.TemporaryDirectory() as folder:
            fill(Path(folder) / "in", keys, students)
            took = grade(Path(folder) / "in", Path(folder) / "out", keys, seeds)
        answers = students * len(keys) * seeds
        print(
            f"{name:<30} {answers:>8} {took.judged:>7} {took.first:12.1f} {took.all:8.0f} {took.cpu:8.0f}"
            f" {os.getloadavg()[0]:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
