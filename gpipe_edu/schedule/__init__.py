"""Schedules: plain data that says which device runs which op in which order.

Only `needs.py` states the rules of pipeline parallelism: the doctor, the simulator, the engines and the pictures all
ask it what an op waits for. `order.py` finds one order in which all ops can run, in linear time. What it cannot place
is a deadlock; what it can place is what `simulate` times and the NumPy engine runs. `deadlock.py` finds the circle of
ops that wait for each other, `doctor.py` says in a sentence why a schedule cannot run; its codes are `CODES`.
`recipes.py` has the well-known schedules, each a rule for one device. `notation.py` is the written form, and
`pipeline_csv.py` the one that PyTorch reads, `other_orders.py` has what others write; `reading.py` says which of them a
text is.
"""

from .doctor import CODES, Problem, ScheduleError
from .op import KINDS, Op
from .other_orders import read_megatron_order, read_zero_bubble
from .reading import looks_like_schedule, read_schedule_text
from .recipes import (
    breadth_first,
    combined_one_f_one_b,
    dual_pipe_v,
    gpipe,
    interleaved,
    interleaved_zero_bubble,
    naive,
    one_f_one_b,
    zero_bubble,
    zero_bubble_v,
)
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
    "combined_one_f_one_b",
    "dual_pipe_v",
    "gpipe",
    "interleaved",
    "interleaved_zero_bubble",
    "looks_like_schedule",
    "naive",
    "one_f_one_b",
    "read_megatron_order",
    "read_schedule_text",
    "read_zero_bubble",
    "with_recompute",
    "zero_bubble",
    "zero_bubble_v",
]
