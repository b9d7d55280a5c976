"""The widget as one HTML file: no kernel, no network, no other file.

A page cannot simulate. An explorer in a page therefore contains its charts for every point of a grid, compressed;
points in between, and other costs, need a notebook. The page's content security policy blocks all requests to other
hosts.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import product
from typing import Any, Final

from gpipe_edu.timeline import Timeline
from gpipe_edu.view.html import fill, json_element, style_element

from .assets import script, style
from .explorer_payload import offer, payload, refusal
from .settings import RECOMPUTES, Settings, schedules
from .spec import to_json

GRID: Final[Mapping[str, Sequence[int]]] = {"K": (1, 2, 3, 4, 6, 8), "M": (1, 2, 3, 4, 6, 8, 16)}
"""Sizes of the charts in a page, each with every schedule and every way to recompute."""


def page(
    timelines: Sequence[Timeline],
    settings: Settings | None,
    options: Mapping[str, Any],
    cap: float | None,
) -> str:
    """The text of the page. options: memory, critical, speed, theme. settings: for an explorer, where it starts."""
    grid = None if settings is None else _grid(settings)
    data = offer(settings, grid)
    data["options"] = dict(options)
    data["payload"] = {"serial": 0, **payload(timelines, settings, critical_path=True, cap=cap)}
    data["frames"] = None if settings is None or grid is None else _frames(settings, grid, cap)
    title = ", ".join(timeline.name or "pipeline" for timeline in timelines)
    return fill(
        __file__,
        title=escape(title),
        chart_style=style_element(style()),
        script=script(),
        note="" if settings is None else f'<p class="ge-note">{escape(_note(settings))}</p>',
        summary=escape(_summary(data["payload"])),
        data=json_element('id="ge-data"', to_json(data)),
    )


def _grid(settings: Settings) -> dict[str, list[int]]:
    """The grid with the explorer's current sizes, which the page must be able to show."""
    return {name: sorted({*sizes, getattr(settings, name)}) for name, sizes in GRID.items()}


def _frames(settings: Settings, grid: Mapping[str, Sequence[int]], cap: float | None) -> str:
    """The page's answers to all requests, as deflated JSON in base64."""
    frames: list[str] = []
    for schedule, recompute, K, M in product(schedules(), RECOMPUTES, grid["K"], grid["M"]):
        try:
            here = replace(settings, schedule=schedule, recompute=recompute, K=K, M=M)
            answer = to_json(payload([here.timeline()], critical_path=True, cap=cap))
        except ValueError as error:
            answer = refusal(error)
        frames.append(f'"{schedule}|{recompute}|{K}|{M}":{answer}')
    return base64.b64encode(zlib.compress(f"{{{','.join(frames)}}}".encode(), 9)).decode("ascii")


def _note(settings: Settings) -> str:
    costs = f"F = {settings.F:g}, B = {settings.B:g}, R = {settings.R:g}, transfer = {settings.send:g}"
    uneven = f", stages times {', '.join(f'{factor:g}' for factor in settings.factors)}" if settings.factors else ""
    return (
        f"This page works without a kernel: its charts were computed in advance, with the costs {costs}{uneven}. Other "
        f"sizes and costs: ge.gantt() in a notebook."
    )


def _summary(content: Mapping[str, Any]) -> str:
    return " ".join("; ".join([*spec["heading"], *spec["figures"]]) + "." for spec in content["specs"])
