"""The parts of a picture: plain data in pixels, y downwards, that says where things are and not how to paint them.

This is the whole interface between layout and painters, so a painter has no arithmetic of its own to get wrong.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

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
        """The kind as which it is painted: a checkpointed backward sends its backward's gradient."""
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
