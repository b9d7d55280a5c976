"""Cells that *Run All* has lined up behind an open question: they would show its answer, so they are given back unrun.

A kernel does this after an error. Here there is none, so that a lesson runs to its end wherever cells are sent one by
one, as tests and site builders do. It is no public part of ipykernel; where a kernel has no such thing, all cells run.
"""

from __future__ import annotations

import sys
from typing import Any


def give_back() -> None:
    """Let the frontend have back what it has sent and what has not begun to run."""
    ipython: Any = sys.modules.get("IPython")
    kernel = getattr(ipython.get_ipython(), "kernel", None) if ipython else None
    abort = getattr(kernel, "_abort_queues", None)
    if callable(abort):
        abort()
