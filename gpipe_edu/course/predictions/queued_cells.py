"""Cells that *Run All* has queued behind an open question: they would show its answer, so they are returned unrun.

A kernel does this after an error. No error is raised here, so that a lesson runs to its end where cells are sent one by
one, as tests and site builders do. This uses a private part of ipykernel; in kernels without it all cells run.
"""

from __future__ import annotations

import sys
from typing import Any


def give_back() -> None:
    """Return to the frontend the cells that it has sent and that have not begun to run."""
    ipython: Any = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython else None
    abort = getattr(kernel, "_abort_queues", None)
    if callable(abort):
        abort()
