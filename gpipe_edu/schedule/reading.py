"""A text that somebody brings: is it a schedule, and which?

The file's name says neither. What decides is the shape of its first line, so that a schedule with a mistake in it is
still taken for a schedule, and answered as one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from gpipe_edu.base.bounded import whole_number

from .doctor import Problem, ScheduleError
from .notation import check_length, check_numbers
from .other_orders import ZERO_BUBBLE_WORD, read_megatron_order, read_zero_bubble
from .pipeline_csv import is_pipeline_csv
from .schedule import Schedule

_WORD_SHAPED: Final = re.compile(r"[A-Za-z]\d+(?:@\d+)?", re.ASCII)
_ZERO_BUBBLE_ONLY: Final = re.compile(r"[fbwr]\d+|[sr][fb]\d+", re.ASCII)
_NUMBERS: Final = re.compile(r"(?=[^-]*+(?:-(?!\s*+\d)[^-]*+)*+-)[\[\]\s,\d-]*+", re.ASCII)

_BETWEEN_ROWS: Final = re.compile(r"\](?:\s*+,)?+\s*+\[|\n")


def looks_like_schedule(text: str) -> bool:
    """Whether `text` is meant as a schedule, with mistakes or without: the written form, PyTorch's pipeline CSV, or an
    order as zero bubble or Megatron-LM (numbers, a line a rank) has it.
    """
    return any(form.fits(text) for form in _FORMS)


def parse_any(text: str, name: str = "") -> Schedule:
    """The schedule that is written in `text`, in any of these forms, whether it can run or not.

    Raises ScheduleError for a text that cannot be read.
    """
    check_length(text)
    for form in _FORMS:
        if form.fits(text):
            schedule = form.read(text, name)
            check_numbers(schedule.rows)
            return schedule
    return Schedule.parse(text, name)


def read_schedule_text(text: str, name: str = "") -> Schedule:
    """As `parse_any`, for a schedule that can run. Raises ScheduleError, with the doctor's sentence, for one that can
    not."""
    return parse_any(text, name).check()


def _first_words(text: str) -> list[str]:
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return next((line for line in lines if line and line != ["-"]), [])


def _most(found: Iterable[object], words: list[str]) -> bool:
    return 2 * sum(map(bool, found)) > len(words)


def _is_written(text: str) -> bool:
    words = _first_words(text)
    return _most(map(_WORD_SHAPED.fullmatch, words), words)


def _is_zero_bubble(text: str) -> bool:
    words = _first_words(text)
    small = any(map(_ZERO_BUBBLE_ONLY.fullmatch, words))
    return small and _most(map(ZERO_BUBBLE_WORD.fullmatch, words), words)


def _numbers(text: str, name: str) -> Schedule:
    """Lines of numbers, or one list of lists."""
    rows = _BETWEEN_ROWS.split(text.strip())
    try:
        found = [[whole_number(word) for word in re.findall(r"-?\d+", row)] for row in rows]
        return read_megatron_order([row for row in found if row], name)
    except ValueError as error:
        raise ScheduleError([Problem("unreadable", str(error), None)]) from None


class _Form(NamedTuple):
    fits: Callable[[str], object]
    read: Callable[[str, str], Schedule]


_FORMS: Final = (
    _Form(is_pipeline_csv, Schedule.parse),
    _Form(_is_zero_bubble, read_zero_bubble),
    _Form(_is_written, Schedule.parse),
    _Form(_NUMBERS.fullmatch, _numbers),
)
"""What each form is known by, and how it is read; the first that fits counts."""
