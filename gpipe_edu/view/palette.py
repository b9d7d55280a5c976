"""All colours in one place, so that one test can check them.

Fills are told apart under three kinds of colour blindness and in grey print; a second cue (dots, a dashed outline, a
hatch, the letter) serves those who cannot use colour at all. An input gradient is drawn as the backward it is half of.
A checkpointed backward has no colour of its own: it is painted as a recompute part and a backward part.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Paint(NamedTuple):
    """How one kind of op is painted: colours as "#RRGGBB", and the cue that works without colour."""

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


class Ground(NamedTuple):
    """The picture around the ops: background, text and heavy bars, lesser text, the hatch of bubbles, the memory in
    use, and what breaks a rule. Ops have the same colours in both themes, so that the legend is learned once.
    """

    paper: str
    ink: str
    faint: str
    hatch: str
    store: str
    alarm: str

    def of(self, role: str) -> str:
        """The colour of a line of text."""
        return {"tick": self.faint, "note": self.faint, "alarm": self.alarm}.get(role, self.ink)


GROUNDS: Final[dict[str, Ground]] = {
    "light": Ground("#FFFFFF", "#111111", "#555555", "#9A9A9A", "#DDDDDD", "#A40000"),
    "dark": Ground("#181818", "#F2F2F2", "#B8B8B8", "#6E6E6E", "#4A4A4A", "#FF8A80"),
}


PAGE: Final = "page"
"""The theme of an SVG inside a page: each colour is both, and the page's `color-scheme` decides."""


def ground_of(theme: str) -> Ground:
    """The ground of a theme. Raises ValueError for any but "light", "dark" and PAGE, which only SVG can have."""
    if theme == PAGE:
        both = zip(GROUNDS["light"], GROUNDS["dark"], strict=True)
        return Ground(*(f"light-dark({light}, {dark})" for light, dark in both))
    if theme not in GROUNDS:
        raise ValueError(f'theme is {theme!r}; for a still picture it must be "light" or "dark"')
    return GROUNDS[theme]


def label_colour(kind: str) -> str:
    """The text colour of a box of this kind; that of a checkpointed backward is on its backward part."""
    return PAINTS["B" if kind == "C" else kind].text
