"""The written form of a schedule: what a learner types into a file, and what `str(schedule)` prints.

    F0 F1 B1 B0      device 0
    F0 F1 B1 B0      device 1

The stage is left out where it equals the number of the device, because then it says nothing new.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .doctor import Problem, ScheduleError
from .op import KINDS, Op

_WORD = re.compile(r"([A-Z])(\d{1,9})(?:@(\d{1,9}))?", re.ASCII)
_EMPTY = "-"


def format_rows(rows: Sequence[Sequence[Op]]) -> str:
    """One line per device; "@stage" only on devices that hold another stage than their own number."""
    lines = []
    for device, row in enumerate(rows):
        plain = all(op.stage == device for op in row)
        lines.append(" ".join(op.label if plain else str(op) for op in row) or _EMPTY)
    return "\n".join(lines)


def parse_rows(text: str) -> list[list[Op]]:
    """The inverse of `format_rows`. Raises ScheduleError naming the line and the word that cannot be read."""
    if not isinstance(text, str):
        raise TypeError(f'Schedule.parse takes text such as "F0 F1 B1 B0", a line per device; got {text!r}')
    rows: list[list[Op]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if words:
            ops = [] if words == [_EMPTY] else [_parse(word, number, device=len(rows)) for word in words]
            rows.append(ops)
    return rows


def _parse(word: str, line: int, device: int) -> Op:
    match = _WORD.fullmatch(word)
    if match and match[1] in KINDS:
        return Op(match[1], int(match[2]), device if match[3] is None else int(match[3]))
    letters = ", ".join(KINDS)
    message = (
        f'line {line}: cannot read "{word}"; write a letter ({letters}) and a micro-batch, such as F0, '
        f"or with its stage, F0@2, and blanks between ops"
    )
    if word.upper() != word and _WORD.fullmatch(word.upper()):
        message += f'; letters are capitals: "{word.upper()}"'
    raise ScheduleError([Problem("unreadable", message, None)])
