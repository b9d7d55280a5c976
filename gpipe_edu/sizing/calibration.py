"""One measured step gives a factor for all plans: stacks of software differ by a quarter on equal devices."""

from __future__ import annotations

import inspect

from gpipe_edu.base.validate import number

from .job import Job
from .plan import Plan

_KNOBS = {name for name in inspect.signature(Plan).parameters if name not in ("job", "balance", "counter")}


def read(text: str) -> tuple[float, dict[str, int | str | bool]]:
    """Seconds and knobs from words like "12.3 D=8 K=1 M=8 zero=3 recompute=full".

    Raises ValueError for anything else, saying what is meant.
    """
    seconds, *words = text.replace(",", " ").split() or [""]
    try:
        measured = number("the measured step", float(seconds))
    except ValueError:
        measured = 0.0
    knobs: dict[str, int | str | bool] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in _KNOBS or not value:
            raise ValueError(f"{word!r} is no knob of a plan; write {', '.join(sorted(_KNOBS))}, such as K=4")
        knobs[name] = int(value) if value.isdigit() else value == "yes" if name == "sequence" else value
    if not measured or not {"D", "K", "M"} <= knobs.keys():
        raise ValueError(
            f'{text!r} is no measured step; write its seconds and its plan, such as "12.3 D=8 K=1 M=8 zero=3"'
        )
    return measured, knobs


def calibrate(job: Job, seconds: float, **knobs: int | str | bool) -> tuple[Job, float]:
    """The same job on a machine as slow as the one where its plan with these knobs took so long, and the factor.

    Raises ValueError or TypeError for a plan that can't be.
    """
    factor = seconds / Plan(job, **knobs).step  # type: ignore[arg-type]  # Plan checks them
    return job._replace(machine=job.machine.slowed(factor)), factor
