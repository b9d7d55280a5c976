"""The puzzle without a screen: build a schedule by hand, judged by the schedule doctor, then run it for real.

Page, terminal and tests send the same commands to `Session.do` (`session.py`) and draw its board. `position.py` works
out once per move what can be placed; every refusal is the doctor's. `par.py` proves how short a step can be, `hints.py`
finds the next move, `helpers.py` saves work without making decisions: forced moves, and one micro-batch's pattern
repeated at the shortest interval that fits. Unfinished boards are kept, as solved levels are (`saved.py`). The levels
are in `levels.toml`.
"""

from .board import Board, Verdict
from .hints import Hint, hint
from .levels import LEVELS, Level, find_level, sandbox
from .par import Proof, lower_bound, prove
from .saved import SolvedLevels
from .score import Score, recognise
from .share import read, share

__all__ = [
    "LEVELS",
    "Board",
    "Hint",
    "Level",
    "Proof",
    "Score",
    "SolvedLevels",
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
