"""The PyTorch engine of this checkout against that of another, such as an older one, in turn.

    git worktree add ../before COMMIT
    python -m benchmarks.before_after ../before [ROUNDS]

Each checkout has a process of its own, which makes the steps that it is told to; the ratio is that of two steps next to
each other, so a slow moment of the machine hits both. Two equal checkouts show how much is chance.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.measuring import machine, spread

HERE: Final = Path(__file__).parents[1]
SIZES: Final = (512, 2048)
WARM_UP: Final = 2
SERVE: Final = f"""
import sys, torch
from benchmarks.engines import on_one_device, ours
from benchmarks.measuring import milliseconds
torch.set_num_threads(1)
work = {{f"N={{N}} {{name}}": step for N in {SIZES} for name, step in {{**on_one_device(N), **ours(N)}}.items()}}
print("\\t".join(work), flush=True)
for line in sys.stdin:
    print(milliseconds(work[line.rstrip()]), flush=True)
"""


class Checkout:
    """A process that runs the engine of one checkout; use it in `with`."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE], cwd=root, env=environment, stdin=-1, stdout=-1, text=True, bufsize=1
        )
        self.names = self._line().split("\t")

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def milliseconds(self, name: str) -> float:
        """The time of one step."""
        print(name, file=self._process.stdin)
        return float(self._line())

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise SystemExit("a checkout's process has ended; its error stands above")
        return line.rstrip("\n")


def main(other: Path, rounds: int) -> None:
    print(f"{machine()}, one BLAS thread a worker, {rounds} rounds, load {os.getloadavg()[0]:.1f} at the start")
    print(f"{'ms: median (IQR)':<45} {'before':>20} {'after':>20} {'after / before (IQR)':>22}")
    with Checkout(other.resolve()) as before, Checkout(HERE) as after:
        names = [name for name in before.names if name in after.names]
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        shuffled = random.Random(0)
        for number in range(-WARM_UP, rounds):
            for name in shuffled.sample(names, len(names)):
                first, second = (before, after) if shuffled.random() < 0.5 else (after, before)
                took = {first: first.milliseconds(name), second: second.milliseconds(name)}
                if number >= 0:
                    found[name].append((took[before], took[after]))
    for name, pairs in found.items():
        old, new = (list(column) for column in zip(*pairs, strict=True))
        low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4, method="inclusive")
        print(f"{name:<45} {spread(old):>20} {spread(new):>20} {middle:14.2f} ({high - low:5.2f})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 21)
