"""The written form of a schedule: what a learner types into a file, and what `str(schedule)` prints.

    F0 F1 B1 B0      device 0
    F0 F1 B1 B0      device 1

The stage is left out where it equals the number of the device, because then it says nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpipe_edu.base.words import shown

from .doctor import Problem, ScheduleError
from .op import KINDS, MOST_MICRO_BATCHES, MOST_STAGES, Op

_WORD = re.compile(r"([A-Z])(\d{1,9})(?:@(\d{1,9}))?", re.ASCII)
_EMPTY = "-"

MOST_LETTERS: Final = 2_000_000
"""Of a text that is read; the largest order that the explorer draws has a fifth."""

_MOST_MEANT: Final = 200
"""Letters of a guess at what was meant."""


def format_rows(rows: Sequence[Sequence[Op]]) -> str:
    """One line per device; "@stage" only on devices that hold a stage other than their own number."""
    lines = []
    for device, row in enumerate(rows):
        plain = all(op.stage == device for op in row)
        lines.append(" ".join(op.label if plain else str(op) for op in row) or _EMPTY)
    return "\n".join(lines)


def parse_rows(text: str, letters: str = "") -> list[list[Op]]:
    """The inverse of `format_rows`. Raises ScheduleError naming the line and the word that cannot be read.

    letters: those that the error message offers, by default F, B and the others in the text, so that learners are not
    sent to letters they have not met. A blank first line, as after three quotation marks, is not counted.
    """
    if not isinstance(text, str):
        raise TypeError(f'Schedule.parse takes text such as "F0 F1 B1 B0", a line per device; got {text!r}')
    check_length(text)
    rows: list[list[Op]] = []
    lines = text.splitlines()
    used = {match[1] for word in text.split() if (match := _WORD.fullmatch(word))}
    known = letters or "".join(kind for kind in KINDS if kind in used | {"F", "B"})
    for number, line in enumerate(lines, start=0 if lines and not lines[0].strip() else 1):
        words = line.partition("#")[0].split()
        if words:
            ops = [] if words == [_EMPTY] else [_parse(word, len(rows)) for word in words]
            if None in ops:
                raise _refusal(words, ops.index(None), number, known)
            rows.append([op for op in ops if op])
    return rows


def check_length(text: str) -> None:
    """Raises ScheduleError for a text that is longer than an order of ops can be meant to be."""
    if len(text) > MOST_LETTERS:
        message = f"the text has {len(text):,} letters, and an order of ops at most {MOST_LETTERS:,}"
        raise ScheduleError([Problem("unreadable", message, None)])


def check_numbers(rows: Sequence[Sequence[Op]]) -> None:
    """Raises ScheduleError for a stage or a micro-batch with a number that no order has."""
    for row in rows:
        for op in row:
            if op.stage >= MOST_STAGES or op.micro_batch >= MOST_MICRO_BATCHES:
                message = (
                    f"{op} is beyond the {MOST_STAGES:,} stages and {MOST_MICRO_BATCHES:,} micro-batches that a text "
                    "may name, counted from 0"
                )
                raise ScheduleError([Problem("out-of-range", message, op)])


def _parse(word: str, device: int) -> Op | None:
    match = _WORD.fullmatch(word)
    if not match or match[1] not in KINDS:
        return None
    return Op(match[1], int(match[2]), device if match[3] is None else int(match[3]))


def _refusal(words: list[str], place: int, line: int, letters: str) -> ScheduleError:
    message = (
        f'line {line}: cannot read "{shown(words[place])}"; write a letter ({", ".join(letters)}) and a micro-batch, '
        f"such as F0, or with its stage, F0@2, and blanks between ops"
    )
    if 0 < len(meant := guess(" ".join(words))) <= _MOST_MEANT:
        rows = '" and on the next line "'.join(meant.splitlines())
        message += f'. Did you mean "{rows}"?'
    return ScheduleError([Problem("unreadable", message, None)])


def guess(text: str) -> str:
    """The written form meant by a `text` with small letters, commas, or strokes between devices; "" if none is."""
    rows = [re.sub(r"[^A-Z0-9@]+", " ", row).split() for row in re.split(r"[\n/|;]", text.upper())]
    rows = [row for row in rows if row]
    return "\n".join(" ".join(row) for row in rows) if all(_parse(word, 0) for row in rows for word in row) else ""
