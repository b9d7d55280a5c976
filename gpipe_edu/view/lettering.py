"""How wide text will be, so that labels can be left out and lines wrapped without loading a font.

The widths are those of a wide face (DejaVu Sans), so text that fits here fits in Helvetica or Arial as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

NARROWEST: Final = 13
"""Boxes narrower than this many pixels carry no label."""

SMALLEST: Final = 9
LARGEST: Final = 14
"""Label sizes in pixels: below the first, they are unreadable on a projector."""

_AVERAGE: Final = 0.55
_WIDTHS: Final = {"W": 0.99, "F": 0.58, "I": 0.4}
_DOT: Final = " · "


def text_width(text: str, font: float) -> float:
    """Pixels that a line of running text takes at most, roughly."""
    return len(text) * _AVERAGE * font


def label_font(label: str, width: float) -> float:
    """The size at which `label` fits a box `width` pixels wide, at most `LARGEST`; 0 if there is none.

    Only the smallest letters may come near the outline of their box.
    """
    em = _ems(label)
    font = min(LARGEST, (width - 1) / em, max(SMALLEST, (width - 6) / em))
    return font if width >= NARROWEST and font >= SMALLEST else 0


def number_font(number: str, width: float) -> float:
    """The size at which a number alone fits a box, at most `LARGEST`; 0 if there is none."""
    em = _ems(number)
    font = min(LARGEST, (width - 1) / em, max(SMALLEST, (width - 2) / em))
    return font if font >= SMALLEST else 0


def _ems(label: str) -> float:
    """The width of a label, in its own font's size."""
    return sum(_WIDTHS.get(letter, 0.69 if letter.isalpha() else 0.64) for letter in label)


def wrap(pieces: Iterable[str], font: float, width: float) -> list[str]:
    """The pieces joined by dots, on as many lines as it takes to stay within `width` pixels.

    A piece is never split, so one that is too long for a line is shortened with an ellipsis.
    """
    most = max(2, int(width / (_AVERAGE * font)))
    return fill([piece if len(piece) <= most else piece[: most - 1] + "…" for piece in pieces], most, _DOT)


def fill(pieces: Sequence[str], most: int, joint: str) -> list[str]:
    """The pieces on lines of at most `most` characters, none split."""
    lines: list[str] = []
    for piece in pieces:
        if lines and len(lines[-1]) + len(joint) + len(piece) <= most:
            lines[-1] += joint + piece
        else:
            lines.append(piece)
    return lines
