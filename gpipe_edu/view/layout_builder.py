"""A picture under construction: where the next line goes, its parts so far, and the sizes common to all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from .shapes import Arrow, Bar, Box, Idle, Layout, Outline, Point, Role, Strip, Swatch, Wire, Words

EDGE: Final = 12
HEADING, FIGURES, LANE, NOTE = 17, 14, 14, 13
STRIP: Final = 26
LINK, WIRE, LINK_NOTE = 12, 8, 11
"""Pixels: the margin, the sizes of type, the heights of a memory strip, of a link's row and of a message in it."""


@dataclass
class LayoutBuilder:
    """The picture under construction: where the next line goes, and its parts so far."""

    width: float
    left: float
    right: float
    origin: float
    scale: float
    thin: bool
    y: float = EDGE
    boxes: list[Box] = field(default_factory=list)
    idles: list[Idle] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    strips: list[Strip] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    routes: list[tuple[Point, ...]] = field(default_factory=list)
    axis: tuple[Point, ...] = ()
    ticks: list[float] = field(default_factory=list)
    swatches: list[Swatch] = field(default_factory=list)
    outlines: list[Outline] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    words: list[Words] = field(default_factory=list)

    def x(self, time: float) -> float:
        """The position of `time` on the axis that all timelines share."""
        return self.left + (time - self.origin) * self.scale

    def write(self, role: Role, line: str, font: float) -> None:
        """Add a line of text at the left margin, and move on to the next one."""
        self.words.append(Words(role, EDGE, self.y + font / 2, line, font))
        self.y += font * 1.4

    def freeze(self, summary: str) -> Layout:
        """The picture as it is now; `summary` says in words what it shows."""
        whole: dict[str, Any] = {"width": self.width, "height": self.y + EDGE / 2, "summary": summary}
        whole |= {name: tuple(getattr(self, name)) for name in Layout._fields if name not in whole}
        return Layout(**whole)
