"""One place for colours, so that no drawer invents its own and one test can guard them all.

Fills are told apart under three kinds of colour blindness and in grey print; a second cue (dots, a dashed outline, a
hatch, the letter) serves whoever cannot use colour at all. An input gradient is drawn as the backward it is half of. A
checkpointed backward has no colour of its own: it is painted as a recompute part and a backward part.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Paint(NamedTuple):
    """How one kind of op is painted: colours as "#RRGGBB", and the cue that is left without colour."""

    fill: str
    text: str
    edge: str = "#FFFFFF"
    dotted: bool = False


PAINTS: Final[dict[str, Paint]] = {
    "F": Paint("#7FC4F0", "#000000"),
    "B": Paint("#8F3300", "#FFFFFF"),
    "R": Paint("#FFF3B0", "#000000", edge="#6B5900", dotted=True),
    "I": Paint("#8F3300", "#FFFFFF"),
    "W": Paint("#C06C9B", "#000000"),
}
"""The paint of every kind of op, apart from C."""

PAPER: Final = "#FFFFFF"
INK: Final = "#111111"
FAINT: Final = "#555555"
HATCH: Final = "#9A9A9A"
STORE: Final = "#DDDDDD"
ALARM: Final = "#A40000"
"""Background, text and heavy bars, lesser text, the hatch of bubbles, the memory in use, and what breaks a rule."""


def label_colour(kind: str) -> str:
    """The text colour of a box of this kind; that of a checkpointed backward stands on its backward part."""
    return PAINTS["B" if kind == "C" else kind].text
