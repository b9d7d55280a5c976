"""The chart as files, for the page's "save as": each made by Python, so that saved pictures are those for papers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Protocol

from gpipe_edu.timeline import Timeline


class Drawing(Protocol):
    """What can be saved: the widget, or anything else with its methods."""

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """What is drawn."""

    def to_svg(self) -> str:
        """The text of an SVG file."""

    def to_png(self) -> bytes:
        """A PNG file."""

    def to_html(self) -> str:
        """The text of a self-contained page."""

    def save_trace(self, path: Path) -> list[Path]:
        """Write a Chrome trace, or one each of several timelines; returns the paths."""


class SavedFile(NamedTuple):
    """A file to be saved: its name, its media type and its content."""

    name: str
    media: str
    content: bytes


def files(chart: Drawing, kind: str) -> list[SavedFile]:
    """The chart as files of `kind`: one, or for a trace one per timeline. Raises ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"cannot save as {kind!r}; it must be one of {', '.join(KINDS)}")
    return KINDS[kind](chart)


def _one(ending: str, media: str, content: Callable[[Drawing], str | bytes]) -> Callable[[Drawing], list[SavedFile]]:
    def make(chart: Drawing) -> list[SavedFile]:
        made = content(chart)
        return [SavedFile(f"{_name(chart)}.{ending}", media, made.encode() if isinstance(made, str) else made)]

    return make


def _traces(chart: Drawing) -> list[SavedFile]:
    with TemporaryDirectory() as folder:
        paths = chart.save_trace(Path(folder) / f"{_name(chart)}.json")
        return [SavedFile(path.name, "application/json", path.read_bytes()) for path in paths]


def _name(chart: Drawing) -> str:
    """The timelines' names as a file's name, on any system."""
    names = "-".join(timeline.name or "timeline" for timeline in chart.timelines)
    return re.sub(r"\W+", "-", names).strip("-").lower()[:80] or "timeline"


KINDS: Final[dict[str, Callable[[Drawing], list[SavedFile]]]] = {
    "svg": _one("svg", "image/svg+xml", lambda chart: chart.to_svg()),
    "png": _one("png", "image/png", lambda chart: chart.to_png()),
    "html": _one("html", "text/html", lambda chart: chart.to_html()),
    "trace": _traces,
}
"""What the page offers, by the word it sends."""
