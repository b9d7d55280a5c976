"""Timelines: when each op ran, or is planned to run, and the figures that follow from it.

`simulate.py` has no choices to make: a device runs its row in order, each op as soon as its inputs are there, so
planned timelines are deterministic; `ends.py` says sooner when that ends, `merged_replays.py` makes one of several runs
whose ops were timed one by one, and `single_thread.py` has calls that one thread hands to devices. `stuck_schedule.py`
turns a schedule that cannot run into something to draw: what has run, what never will, and arrows for the broken rule.
`trace.py` writes and reads Chrome traces, `opened/` opens what other programs have measured, `faults.py` makes steps to
practise on, `diagram.py` reads what people draw. If micro-batches cost differently, `micro_batch_order.py` finds their
best order and `cut_by_step.py` the best cut; both try thousands of variants at once, with `step_lengths.py`.
"""

from typing import TYPE_CHECKING, Any

from . import formulas
from .costs import Costs, calibrate
from .diagnosis import Diagnosis, diagnose
from .diagram import contradictions, read_diagram
from .faults import step_with_fault
from .memory import peak_memory
from .merged_replays import merge_replays
from .simulate import replay, simulate
from .single_thread import dispatch_calls
from .timeline import Message, Span, Timeline

if TYPE_CHECKING:
    from .cut_by_step import balance_by_step
    from .micro_batch_order import order_micro_batches
    from .opened import load, read_profiles

__all__ = [
    "Costs",
    "Diagnosis",
    "Message",
    "Span",
    "Timeline",
    "balance_by_step",
    "calibrate",
    "contradictions",
    "diagnose",
    "dispatch_calls",
    "formulas",
    "load",
    "merge_replays",
    "order_micro_batches",
    "peak_memory",
    "read_diagram",
    "read_profiles",
    "replay",
    "simulate",
    "step_with_fault",
]


def __getattr__(name: str) -> Any:
    """What opens files is large, and searches need NumPy: they load when they are first used."""
    if name in ("load", "read_profiles"):
        from . import opened

        return getattr(opened, name)
    if name == "order_micro_batches":
        from .micro_batch_order import order_micro_batches

        return order_micro_batches
    if name == "balance_by_step":
        from .cut_by_step import balance_by_step

        return balance_by_step
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
