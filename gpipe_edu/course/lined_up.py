"""Cells that *Run All* has lined up behind an open question: they would show its answer, so they are given back unrun.

A kernel does this after an error. Here there is none, so that a lesson runs to its end wherever cells are sent one by
one, as tests and site builders do. It is no public part of ipykernel, nor of the kernel in a browser; where a kernel
has no such thing, all cells run.
"""

from __future__ import annotations

import sys
from typing import Any, Final

WORDS: Final = "Cells below this question wait for your answer: run them when you have committed."


def give_back() -> None:
    """Let the frontend have back what it has sent and what has not begun to run."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    abort = getattr(getattr(shell, "kernel", None), "_abort_queues", None)
    if callable(abort):
        abort()
    elif sys.platform == "emscripten" and hasattr(shell, "_last_traceback"):
        # JupyterLite gives back what is lined up behind a cell that has failed, and only then.
        shell._last_traceback = {"ename": "", "evalue": "", "traceback": [WORDS]}
