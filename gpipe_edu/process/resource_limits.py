"""Limits that the system keeps for a learner's process: one thread, memory, CPU time, the size and number of files."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
"""The environment of every process: no threads that compete for few cores, and no windows."""

MEMORY: Final = 2 * 2**30
"""Bytes of data. PyTorch takes a tenth of it; three such processes at once leave room on a laptop with 8 GB."""

FILE_BYTES: Final = 50_000_000
"""The largest file that an answer may write while it is graded."""


def limit_memory(most: int = MEMORY) -> None:
    """Make endless allocation a MemoryError before the machine suffers. Does nothing where there are no such limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # A limit on data, not on address space, of which torch reserves far more than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def limit_use(cpu_seconds: float) -> None:
    """Set limits for this process and all it starts. cpu_seconds: after that many, each is killed."""
    import resource

    for kind, most in (
        (resource.RLIMIT_CPU, int(cpu_seconds) + 1),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_SIGPENDING, 256),  # which are counted for its user outside, too
    ):
        with suppress(ValueError):  # the limit is already lower
            resource.setrlimit(kind, (most, most))
