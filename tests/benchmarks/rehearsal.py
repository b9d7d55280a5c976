"""`python -m tests.benchmarks.rehearsal FOLDER`: all of `make gpu` on the pretend GPU, in small; nothing else is needed
than what `make gpu` needs, and a C++ compiler."""

import sys
from pathlib import Path

from benchmarks.gpu.run import PARTS, run
from benchmarks.gpu.sizes import SMALL

PATIENT = {name: 10 * limit for name, limit in PARTS.items()}
"""A CPU that others use, too, plays the GPU."""


def rehearse(folder: Path, *parts: str, stand_in: str = "tests.pytorch.pretend_gpu.stand_in") -> int:
    """The exit status of these parts, or of all."""
    chosen = {name: PATIENT[name] for name in parts or PATIENT}
    return run(folder, SMALL, chosen, sum(chosen.values()), stand_in)


if __name__ == "__main__":
    sys.exit(rehearse(Path(sys.argv[1])))
