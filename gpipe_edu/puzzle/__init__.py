"""The puzzle: build a schedule by hand, judged by the schedule doctor and the simulator, then run it for real."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .board import Board, Verdict
from .bounds import lower_bound
from .hints import Hint, hint
from .level import Level
from .levels import LEVELS, find_level, sandbox
from .par import Proof, prove
from .progress import Progress
from .recognise import recognise
from .score import Score
from .share import read, share

if TYPE_CHECKING:
    from gpipe_edu.view.puzzle.widget import Puzzle

__all__ = [
    "LEVELS",
    "Board",
    "Hint",
    "Level",
    "Progress",
    "Proof",
    "Score",
    "Verdict",
    "find_level",
    "hint",
    "lower_bound",
    "prove",
    "read",
    "recognise",
    "sandbox",
    "share",
]


class _Callable(ModuleType):
    """`ge.puzzle(...)` opens the puzzle, while `gpipe_edu.puzzle` is this package: Python knows one name for both."""

    def __call__(self, *args: Any, **options: Any) -> Puzzle:
        """Open the puzzle; see `gpipe_edu.view.puzzle.puzzle`."""
        from gpipe_edu.view.puzzle import puzzle

        return puzzle(*args, **options)


sys.modules[__name__].__class__ = _Callable
