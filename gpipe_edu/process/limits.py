"""Limits for a learner's process: one thread, and no more memory than a laptop can spare."""

from __future__ import annotations

from typing import Final

ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
"""The environment of every process: no threads that compete for few cores, and no windows."""

MEMORY: Final = 2 * 2**30
"""Bytes of data. PyTorch takes a tenth of it; three such processes at once leave room on a laptop with 8 GB."""


def limit_memory() -> None:
    """Make endless allocation a MemoryError before the machine suffers. Does nothing where there are no such limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # A limit on data, not on address space, of which torch reserves far more than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
