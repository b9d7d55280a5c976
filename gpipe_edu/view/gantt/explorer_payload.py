"""What the page receives once, and what it receives after every change, for notebooks and pages alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.timeline import Timeline
from gpipe_edu.timeline.trace import read
from gpipe_edu.view.measures import TimeUnit, time_unit

from .differences import differences
from .settings import MOST, RECOMPUTES, Settings, schedules
from .spec import kind_names, page_unit, spec, specs, to_json


def offer(settings: Settings | None, grid: Mapping[str, Sequence[int]] | None = None) -> dict[str, Any]:
    """The names of ops and, for an explorer, what its controls offer; grid: the sizes a page without a kernel has."""
    explorer = None
    if settings is not None:
        explorer = {
            "schedules": {name: form_of(name)._asdict() for name in schedules()},
            "recomputes": RECOMPUTES,
            "limits": MOST,
            "grid": grid,
            "settings": to_page(settings),
        }
    return {"names": kind_names(), "explorer": explorer, "options": {}}


def to_page(settings: Settings) -> dict[str, Any]:
    """The settings as the page keeps them."""
    return {**vars(settings), "factors": list(settings.factors)}


def payload(
    timelines: Sequence[Timeline],
    settings: Settings | None = None,
    *,
    kept: Settings | None = None,
    critical_path: bool = False,
    cap: float | None = None,
) -> dict[str, Any]:
    """What the page draws. kept: the settings that the learner compares with, already among the timelines."""
    return {
        "error": None,
        "settings": settings and to_page(settings),
        "kept": kept and to_page(kept),
        "specs": specs(timelines, critical_path=critical_path, cap=cap),
        "words": differences(timelines),
    }


@lru_cache(maxsize=24)
def explore(settings: Settings, kept: Settings | None, critical_path: bool, cap: float | None) -> str:
    """The explorer's payload as text; cached, because the page asks for some before they are needed."""
    timelines = [each.timeline() for each in (settings, kept) if each]
    answer = payload(timelines, settings, kept=kept, critical_path=critical_path, cap=cap)
    # The chart being changed comes first, under its controls, and is described by how it differs from the kept one.
    return to_json({**answer, "words": differences(timelines[::-1])})


def open_trace(data: bytes, name: str, beside: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The spec of a saved trace, shown in the same unit as what is `beside` it. Raises ValueError for a bad file."""
    timeline = read(data, name)
    there = [TimeUnit(*each["shown"]) for each in beside if each["unit"] == page_unit(timeline)]
    shown = there[0] if there else time_unit(timeline.unit, timeline.makespan)
    return spec(timeline, shown, critical_path=True)


def refusal(error: Exception) -> str:
    """The refusal of a request, in one sentence; the page keeps the chart it has."""
    return to_json({"error": str(error)})


def number(answer: str, serial: int) -> str:
    """The text of an answer with the number of the request that it answers."""
    return f'{{"serial":{serial},{answer[1:]}'
