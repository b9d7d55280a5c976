"""The puzzle: build a schedule by hand, judged by the schedule doctor and the simulator, then run it for real."""

from .board import Board, Verdict
from .bounds import lower_bound
from .hints import Hint, hint
from .level import Level
from .levels import LEVELS, find_level, sandbox
from .par import Proof, prove
from .recognise import recognise
from .score import Score
from .share import read, share
from .solved import SolvedLevels

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
