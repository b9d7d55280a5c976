"""Learn pipeline parallelism by running it: one schedule, several engines, one timeline, one picture.

Importing this loads neither torch nor matplotlib nor widgets; they load on first use.
"""

from typing import TYPE_CHECKING, Any

from gpipe_edu.schedule import (
    Op,
    Problem,
    Schedule,
    ScheduleError,
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
from gpipe_edu.split import balance_by_cost, balance_uniform, join_batch, split_batch
from gpipe_edu.timeline import Costs, Diagnosis, Span, Timeline, diagnose, formulas, simulate

if TYPE_CHECKING:
    from gpipe_edu.timeline import load

__version__ = "0.1.0"

__all__ = [
    "Costs",
    "Diagnosis",
    "Op",
    "Problem",
    "Schedule",
    "ScheduleError",
    "Span",
    "Timeline",
    "balance_by_cost",
    "balance_uniform",
    "breadth_first",
    "combined_one_f_one_b",
    "compare",
    "diagnose",
    "dual_pipe_v",
    "formulas",
    "gantt",
    "gpipe",
    "interleaved",
    "interleaved_zero_bubble",
    "join_batch",
    "load",
    "naive",
    "one_f_one_b",
    "puzzle",
    "simulate",
    "split_batch",
    "zero_bubble",
    "zero_bubble_v",
]


def __getattr__(name: str) -> Any:
    """`compare`, `gantt` and `puzzle` draw, `load` opens files: they load when they are first used."""
    if name == "compare":
        from gpipe_edu.view.compare import compare

        return compare
    if name == "gantt":
        from gpipe_edu.view.gantt import gantt

        return gantt
    if name == "load":
        from gpipe_edu.timeline import load

        return load
    if name == "puzzle":
        from gpipe_edu.puzzles.page import puzzle

        return puzzle
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
