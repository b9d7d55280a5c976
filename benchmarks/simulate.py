"""How long the doctor and the simulator take, from classroom sizes to those of a real cluster.

Why: the widget simulates again at every move of a slider, so a schedule of lesson size has to be checked and timed
well within one frame (16 ms), and checking has to stay linear in the number of ops: learners paste large schedules
too. Time per op is the column to watch; it should hardly grow with the size.

    python -m benchmarks.simulate

`check` is Schedule.check() on a schedule that was never checked, `simulate` is simulate() on one that was, `both` is
simulate() on a fresh one. Every figure is a median over several fresh schedules, with the interquartile range.
Building the schedule is not counted. The garbage collector runs before, not during, each measurement.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import gpipe_edu as ge
from benchmarks.measuring import machine, milliseconds, spread

SIZES = [(4, 8), (8, 32), (16, 64), (64, 512)]
RECIPES: dict[str, Callable[[int, int], ge.Schedule]] = {
    "gpipe": ge.gpipe,
    "gpipe early": lambda K, M: ge.gpipe(K, M, recompute="early"),
    "1f1b": ge.one_f_one_b,
    "zero bubble": ge.zero_bubble,
    "interleaved V=2": lambda K, M: ge.interleaved(K, M, 2),
}
OPS_PER_CASE = 300_000
"""Small schedules are measured more often: about so many ops for each case, but 5 to 60 rounds."""


def fresh(schedule: ge.Schedule) -> ge.Schedule:
    """The same schedule without anything that an earlier check stored in it."""
    return ge.Schedule(schedule.rows, name=schedule.name)


def rounds(schedule: ge.Schedule, count: int) -> dict[str, list[float]]:
    """Check, simulate and both, one after another in every round, so that a slow moment hits all of them."""
    found: dict[str, list[float]] = {"check": [], "simulate": [], "both": []}
    for _ in range(count):
        one, two = fresh(schedule), fresh(schedule)
        found["check"].append(milliseconds(one.check))
        found["simulate"].append(milliseconds(lambda one=one: ge.simulate(one)))
        found["both"].append(milliseconds(lambda two=two: ge.simulate(two)))
    return found


def main() -> None:
    print(machine())
    print("median (interquartile range) in ms; us/op: median of both / ops\n")
    print(f"{'schedule':<16} {'K':>3} {'M':>4} {'ops':>7} {'rounds':>6}", end=" ")
    print(f"{'check':>17} {'simulate':>17} {'both':>17} {'us/op':>6}")
    for name, recipe in RECIPES.items():
        for K, M in SIZES:
            schedule = recipe(K, M)
            ops = sum(map(len, schedule.rows))
            count = min(60, max(5, OPS_PER_CASE // ops))
            found = rounds(schedule, count)
            per_op = 1e3 * statistics.median(found["both"]) / ops
            figures = " ".join(spread(values) for values in found.values())
            print(f"{name:<16} {K:>3} {M:>4} {ops:>7} {count:>6} {figures} {per_op:6.2f}", flush=True)


if __name__ == "__main__":
    main()
