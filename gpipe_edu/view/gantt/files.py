"""The chart as files, for the page's "save as": each made by Python, so that a saved picture is the one papers show."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .widget import Gantt


class File(NamedTuple):
    """A file to be saved: its name, its media type and its content."""

    name: str
    media: str
    content: bytes


def files(chart: Gantt, kind: str) -> list[File]:
    """The chart as files of `kind`: one, or for a trace one per timeline. Raises ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"cannot save as {kind!r}; it must be one of {', '.join(KINDS)}")
    return KINDS[kind](chart)


def _one(ending: str, media: str, content: Callable[[Gantt], str | bytes]) -> Callable[[Gantt], list[File]]:
    def make(chart: Gantt) -> list[File]:
        made = content(chart)
        return [File(f"{_name(chart)}.{ending}", media, made.encode() if isinstance(made, str) else made)]

    return make


def _traces(chart: Gantt) -> list[File]:
    with TemporaryDirectory() as folder:
        paths = chart.save_trace(Path(folder) / f"{_name(chart)}.json")
        return [File(path.name, "application/json", path.read_bytes()) for path in paths]


def _name(chart: Gantt) -> str:
    """The timelines' names as a file's name, on any system."""
    names = "-".join(timeline.name or "timeline" for timeline in chart.timelines)
    return re.sub(r"\W+", "-", names).strip("-").lower()[:80] or "timeline"


KINDS: Final[dict[str, Callable[[Gantt], list[File]]]] = {
    "svg": _one("svg", "image/svg+xml", lambda chart: chart.to_svg()),
    "png": _one("png", "image/png", lambda chart: chart.to_png()),
    "html": _one("html", "text/html", lambda chart: chart.to_html()),
    "trace": _traces,
}
"""What the page offers, by the word it sends."""
