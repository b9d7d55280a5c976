"""One replayed timeline from several runs, so that what other programs took of the machine is left out."""

from __future__ import annotations

from collections.abc import Iterable

from gpipe_edu.schedule import Op, Schedule

from .simulate import replay
from .timeline import Timeline


def merge_replays(runs: Iterable[Timeline]) -> Timeline:
    """One replayed timeline from several of the same schedule: every op takes its shortest time in any of them.

    Other programs can only add time, and hardly ever to the same op in every run, while on a busy machine an
    undisturbed run is rare. Raises ValueError for no runs, for timelines that are not replayed, and for runs of
    different schedules.
    """
    timelines = list(runs)
    if not timelines:
        raise ValueError("merge_replays needs at least one run; several are better")
    rows = _rows(timelines[0])
    seconds: dict[Op, float] = {}
    for timeline in timelines:
        if timeline.source != "replayed":
            raise ValueError(
                f"{timeline!r} is {timeline.source}; only replayed ops, timed one by one, can come from several runs"
            )
        if _rows(timeline) != rows:
            raise ValueError(f"{timeline!r} runs other ops, or in another order, than {timelines[0]!r}")
        for span in timeline.spans:
            seconds[span.op] = min(span.end - span.start, seconds.get(span.op, float("inf")))
    schedule = Schedule(rows, name=timelines[0].name)
    return replay(schedule, seconds.__getitem__, source="replayed", unit=timelines[0].unit)


def _rows(timeline: Timeline) -> list[list[Op]]:
    return [[span.op for span in timeline.row(device)] for device in range(timeline.devices)]
