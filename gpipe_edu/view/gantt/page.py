"""What the page receives once, and what it receives after every change, for notebooks and pages alike; and the widget
as one HTML file: no kernel, no network, no other file.

A file cannot simulate. An explorer in it therefore contains its charts for every point of a grid, compressed; points in
between, and other costs, need a notebook. Its content security policy blocks all requests to other hosts.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.timeline import Timeline
from gpipe_edu.view.html import fill, json_element, style_element
from gpipe_edu.view.measures import TimeUnit, time_unit

from .assets import script, style
from .differences import differences
from .settings import MOST, RECOMPUTE_WHEN, Settings, schedules
from .spec import kind_names, page_unit, spec, specs, to_json

_LONGEST_NAME: Final = 60
"""Characters of a file's name, in any script: file systems count bytes."""


def offer(settings: Settings | None, grid: Mapping[str, Sequence[int]] | None = None) -> dict[str, Any]:
    """The names of ops and, for an explorer, what its controls offer; grid: the sizes a page without a kernel has."""
    explorer = None
    if settings is not None:
        explorer = {
            "schedules": {name: form_of(name)._asdict() for name in schedules()},
            "recomputes": RECOMPUTE_WHEN,
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


def open_traces(files: Sequence[tuple[str, bytes]], beside: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The spec of a run, from the name and content of a file, or of several, shown in the same unit as what is `beside`
    it; None for several that are not one run. Raises ValueError for a bad file."""
    from gpipe_edu.timeline.opened import load_trace, measured_run  # large, and hardly ever needed

    with TemporaryDirectory() as folder:
        paths = [Path(folder, str(number), _file_name(name)) for number, (name, _) in enumerate(files)]
        for path, (_, data) in zip(paths, files, strict=True):
            path.parent.mkdir()
            path.write_bytes(data)
        timeline = load_trace(paths[0]) if len(paths) == 1 else measured_run(paths)
    if timeline is None:
        return None
    there = [TimeUnit(*each["shown"]) for each in beside if each["unit"] == page_unit(timeline)]
    shown = there[0] if there else time_unit(timeline.unit, timeline.makespan)
    return spec(timeline, shown, critical_path=True)


def _file_name(name: str) -> str:
    """A name for a file here, as near as a file system allows to what the page calls it."""
    kept = re.sub(r"[\x00-\x1f\x7f/\\]", "_", name)
    return kept[-_LONGEST_NAME:] if kept.strip(". ") else "trace.json"


def refusal(error: Exception) -> str:
    """The refusal of a request, in one sentence; the page keeps the chart it has."""
    return to_json({"error": str(error)})


def number(answer: str, serial: int) -> str:
    """The text of an answer with the number of the request that it answers."""
    return f'{{"serial":{serial},{answer[1:]}'


GRID: Final[Mapping[str, Sequence[int]]] = {"K": (1, 2, 3, 4, 6, 8), "M": (1, 2, 3, 4, 6, 8, 16)}
"""Sizes of the charts in a page, each with every schedule and every way to recompute."""


def page(
    timelines: Sequence[Timeline],
    settings: Settings | None,
    options: Mapping[str, Any],
    cap: float | None,
    note: str = "",
) -> str:
    """The text of the page. options: memory, critical, speed, theme. settings: for an explorer, where it starts.
    note: what is said below the chart; an explorer's says what the page can show.
    """
    grid = None if settings is None else _grid(settings)
    data = offer(settings, grid)
    data["options"] = dict(options)
    data["payload"] = {"serial": 0, **payload(timelines, settings, critical_path=True, cap=cap)}
    data["frames"] = None if settings is None or grid is None else _frames(settings, grid, cap)
    title = ", ".join(timeline.name or "pipeline" for timeline in timelines)
    said = note or (_note(settings) if settings else "")
    return fill(
        __file__,
        title=escape(title),
        chart_style=style_element(style()),
        script=script(),
        note=f'<p class="ge-note">{escape(said)}</p>' if said else "",
        summary=escape(_summary(data["payload"])),
        data=json_element('id="ge-data"', to_json(data)),
    )


def _grid(settings: Settings) -> dict[str, list[int]]:
    """The grid with the explorer's current sizes, which the page must be able to show."""
    return {name: sorted({*sizes, getattr(settings, name)}) for name, sizes in GRID.items()}


def _frames(settings: Settings, grid: Mapping[str, Sequence[int]], cap: float | None) -> str:
    """What the page answers to all requests, as deflated JSON in base64. The charts are columns, one for each field of
    a spec: deflate looks back 32 kB, and so finds what a field has in common with that of the chart before. Needs are
    told by how many ops earlier they are, which is alike in many charts; 0 is none.
    """
    found: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    for schedule, recompute, K, M in product(schedules(), RECOMPUTE_WHEN, grid["K"], grid["M"]):
        key = f"{schedule}|{recompute}|{K}|{M}"
        try:
            here = replace(settings, schedule=schedule, recompute=recompute, K=K, M=M)
            (found[key],) = specs([here.timeline()], critical_path=True, cap=cap)
        except ValueError as error:
            errors[key] = str(error)
    fields = dict.fromkeys(field for one in found.values() for field in one)
    columns = {field: [one.get(field) for one in found.values()] for field in fields}
    columns["needs"] = [[_earlier(needs) for needs in one["needs"]] for one in found.values()]
    frames = to_json({"charts": list(found), "columns": columns, "errors": errors})
    return base64.b64encode(zlib.compress(frames.encode(), 9)).decode("ascii")


def _earlier(needs: Sequence[int]) -> list[int]:
    return [op - need if need >= 0 else 0 for op, need in enumerate(needs)]


def _note(settings: Settings) -> str:
    costs = f"F = {settings.F:g}, B = {settings.B:g}, R = {settings.R:g}, transfer = {settings.send:g}"
    costs += f", {settings.overlap:g} of the shorter op of a block hidden" if settings.overlap else ""
    uneven = f", stages times {', '.join(f'{factor:g}' for factor in settings.factors)}" if settings.factors else ""
    return (
        f"This page works without a kernel: its charts were computed in advance, with the costs {costs}{uneven}. Other "
        f"sizes and costs: ge.gantt() in a notebook."
    )


def _summary(content: Mapping[str, Any]) -> str:
    return " ".join("; ".join([*spec["heading"], *spec["figures"]]) + "." for spec in content["specs"])
