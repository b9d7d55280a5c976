"""What a process of a learner's may take: one thread, and no more memory than a laptop can spare."""

from __future__ import annotations

from typing import Final

ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
}
"""For every process: no threads that fight for few cores, and no window that nobody closes."""

MEMORY: Final = 2 * 2**30
"""Bytes of data. PyTorch takes a tenth of it; three such processes at once leave room on a laptop with 8 GB."""


def limit_memory() -> None:
    """An allocation without end becomes a MemoryError before the machine suffers. Not where there are no limits."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # Of data, not of addresses: torch reserves far more of those than it uses.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
