"""The parts of a picture: plain data in pixels, y downwards, that says where things are and not how to paint them.

This is the whole interface between layout and painters, so a painter has no arithmetic of its own to get wrong. A
layout puts them into a `LayoutBuilder`, which knows where the next line goes and has the sizes common to all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from gpipe_edu.schedule import Op

Point = tuple[float, float]
Role = Literal["heading", "figures", "lane", "note", "tick", "alarm"]


class Part(NamedTuple):
    """A piece of a box that is painted as one kind: a checkpointed backward has an R part and a B part."""

    kind: str
    x: float
    width: float


class Box(NamedTuple):
    """One op on its lane; label is "" where it would not fit, font its size."""

    op: Op
    device: int
    start: float
    end: float
    x: float
    y: float
    width: float
    height: float
    parts: tuple[Part, ...]
    label: str
    font: float


class Frame(NamedTuple):
    """Around the two boxes of a pair that runs as one block."""

    x: float
    y: float
    width: float
    height: float


class Idle(NamedTuple):
    """A bubble: `device` waits from start to end."""

    device: int
    start: float
    end: float
    x: float
    y: float
    width: float
    height: float


class Words(NamedTuple):
    """A line of text; y is its middle."""

    role: Role
    x: float
    y: float
    text: str
    font: float
    anchor: Literal["start", "middle", "end"] = "start"


class Wire(NamedTuple):
    """A message while it keeps its link busy, in the colours of the op that sent it."""

    op: Op
    x: float
    y: float
    width: float
    height: float

    @property
    def kind(self) -> str:
        """The kind that it is painted as: a checkpointed backward sends its backward's gradient."""
        return "B" if self.op.kind == "C" else self.op.kind


class Strip(NamedTuple):
    """The memory of one device under its lane: a stepped line from left to right above the base line."""

    device: int
    base: float
    points: tuple[Point, ...]


class Bar(NamedTuple):
    """The flush: the weights are updated here, and no device starts the next step before it."""

    x: float
    top: float
    bottom: float
    width: float


class Swatch(NamedTuple):
    """A sample of the legend; kind is an op kind, "bubble" and the like, parts as in a box."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    parts: tuple[Part, ...]


class Outline(NamedTuple):
    """An op that never runs, as a dashed box; or one that breaks a rule (`wrong`), whose outline goes over its own box.

    label is "" where the op has a box of its own.
    """

    op: Op
    device: int
    x: float
    y: float
    width: float
    height: float
    label: str
    font: float
    wrong: bool


class Arrow(NamedTuple):
    """From an op to one that it waits for, head at the last point; turn: it only comes after that one on its device."""

    points: tuple[Point, ...]
    turn: bool


class Layout(NamedTuple):
    """A whole picture."""

    width: float
    height: float
    summary: str
    boxes: tuple[Box, ...]
    frames: tuple[Frame, ...]
    idles: tuple[Idle, ...]
    wires: tuple[Wire, ...]
    strips: tuple[Strip, ...]
    bars: tuple[Bar, ...]
    routes: tuple[tuple[Point, ...], ...]
    axis: tuple[Point, Point]
    ticks: tuple[float, ...]
    swatches: tuple[Swatch, ...]
    outlines: tuple[Outline, ...]
    arrows: tuple[Arrow, ...]
    words: tuple[Words, ...]


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
    frames: list[Frame] = field(default_factory=list)
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
