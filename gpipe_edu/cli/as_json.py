"""`--json` of `open` and `schedule`: the answer for other programs. What is measured and what is planned is said."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline import Diagnosis, Timeline

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer for other programs.")]


def order_of(schedule: Schedule) -> dict[str, Any]:
    """A schedule, its rows in written form, and what is wrong with it."""
    return {
        "name": schedule.name,
        "devices": schedule.devices,
        "stages": schedule.stages,
        "micro_batches": schedule.micro_batches,
        "rows": str(schedule).splitlines(),
        "problems": [one._asdict() | {"op": one.op and str(one.op)} for one in schedule.problems()],
    }


def step_of(timeline: Timeline) -> dict[str, Any]:
    """When ops run. Times are seconds if they were measured, else in units of the costs."""
    return {
        "source": timeline.source,
        "unit": timeline.unit,
        "makespan": timeline.makespan,
        "bubble": timeline.bubble_fraction,
        "idle": [timeline.idle(device) for device in range(timeline.devices)],
        "peak_in_flight": list(timeline.peak_in_flight),
    }


def diagnosis_of(found: Diagnosis) -> dict[str, Any]:
    """All that was found; links by their two devices, a shorter schedule as `order_of` has it."""
    late = [{"source": source, "target": target, "by": by} for (source, target), by in found.late.items()]
    return asdict(found) | {"late": late, "shorter": found.shorter and order_of(found.shorter), "words": str(found)}


def tell(answer: dict[str, Any]) -> None:
    """Print the answer."""
    typer.echo(json.dumps(answer, indent=1))
