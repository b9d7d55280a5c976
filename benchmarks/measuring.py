"""What the benchmarks share: the machine's name, medians with their spread, and variants timed in turn."""

from __future__ import annotations

import gc
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path


def machine() -> str:
    """Python, processor, cores and date: the line above every table."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"Python {platform.python_version()}, {_cpu()}, {cores} cores, {datetime.now(UTC):%Y-%m-%d}"


def milliseconds(work: Callable[[], object]) -> float:
    """The time of one call; the garbage collector runs before it, not during it."""
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        work()
        return 1e3 * (time.perf_counter() - began)
    finally:
        gc.enable()


def in_turn(variants: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 0) -> dict[str, list[float]]:
    """Milliseconds of every variant, one call each per round, so that a slow moment of the machine hits all of them.

    Every round has an order of its own: a variant that frees much memory makes the next one fetch it anew.
    """
    found: dict[str, list[float]] = {name: [] for name in variants}
    order, shuffle = list(variants), random.Random(0).shuffle
    for number in range(-warm_up, rounds):
        shuffle(order)
        for name in order:
            took = milliseconds(variants[name])
            if number >= 0:
                found[name].append(took)
    return found


def spread(values: list[float]) -> str:
    """Median and interquartile range."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:8.3f} ({high - low:6.3f})"


def between(values: Sequence[float], digits: int = 1) -> str:
    """Median, and the least and the most in brackets."""
    least, middle, most = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
