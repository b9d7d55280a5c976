"""Schedules: plain data that says which device runs which op in which order."""

from .doctor import CODES, Problem, ScheduleError
from .op import KINDS, Op
from .recipes import breadth_first, gpipe, interleaved, naive, one_f_one_b, zero_bubble, zero_bubble_v
from .recompute import with_recompute
from .schedule import Schedule

__all__ = [
    "CODES",
    "KINDS",
    "Op",
    "Problem",
    "Schedule",
    "ScheduleError",
    "breadth_first",
    "gpipe",
    "interleaved",
    "naive",
    "one_f_one_b",
    "with_recompute",
    "zero_bubble",
    "zero_bubble_v",
]
