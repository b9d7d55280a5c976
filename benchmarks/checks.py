"""How long a check takes, on the machine as it is and beside busy loops.

    python -m benchmarks.checks                # five rounds
    python -m benchmarks.checks --rounds 2

Each round checks a right answer of every exercise below, the course's own, once without and once beside three busy
loops per core, in turn. A check begins with a new judge, as the first one in a notebook does; the next one is quicker.
CPU: seconds of the judge and all that it starts. The table is medians, and the least and the most of the rounds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from gpipe_edu.course.building.places import ROOT
from gpipe_edu.course.cut_answer import cut_answer
from gpipe_edu.course.submitted_notebook import of
from gpipe_edu.judge import pool
from gpipe_edu.judge.exercise import find_exercise

EXERCISES = ("ex01/splitting", "ex07/1f1b", "ex05/wrapper", "ex10/processes")
LOOPS = 3
"""For each core."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    cores, before = os.cpu_count() or 1, os.getloadavg()[0]
    taken: dict[tuple[str, bool], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for key in EXERCISES:
            for busy in (False, True):
                with loops(LOOPS * cores if busy else 0):
                    taken.setdefault((key, busy), []).append(check(key))
    print(f"{cores} cores; {before:.1f} processes wanted to run before; {rounds} rounds; {LOOPS * cores} loops\n")
    print(f"{'check':16} {'s':>22} {'s beside loops':>22} {'CPU s':>22}")
    for key in EXERCISES:
        quiet, busy = taken[key, False], taken[key, True]
        columns = ([wall for wall, _ in quiet], [wall for wall, _ in busy], [cpu for _, cpu in quiet])
        print(f"{key:16} {' '.join(f'{spread(values):>22}' for values in columns)}")


def check(key: str) -> tuple[float, float]:
    """Seconds of a check, and of the CPU."""
    exercise = find_exercise(key)
    answer = cut_answer(exercise, of(ROOT / "solutions" / f"{exercise.notebook}.py"))
    packed = answer.pack()
    began, cpu = perf_counter(), _cpu()
    report = pool.judge_apart(exercise, packed, 1)
    wall = perf_counter() - began
    pool.close_idle()
    if report.state != "passed":
        sys.exit(f"{key}: {report}")
    return wall, _cpu() - cpu


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def loops(count: int) -> Iterator[None]:
    """Beside so many processes that never wait."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def spread(values: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
