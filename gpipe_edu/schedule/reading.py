"""A text that somebody brings: is it a schedule, and which?

The file's name tells neither. What tells is the shape of its first line, so that a schedule with a mistake in it is
still taken for a schedule, and answered as one.
"""

from __future__ import annotations

import re
from typing import Final

from .pipeline_csv import is_pipeline_csv
from .schedule import Schedule

_WORD_SHAPED: Final = re.compile(r"[A-Za-z]\d+(?:@\d+)?", re.ASCII)


def looks_like_schedule(text: str) -> bool:
    """Whether `text` is meant as a schedule: the written form or PyTorch's pipeline CSV, with mistakes or without."""
    if is_pipeline_csv(text):
        return True
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    words = next((line for line in lines if line and line != ["-"]), [])
    return 2 * sum(map(bool, map(_WORD_SHAPED.fullmatch, words))) > len(words)


def read_schedule_text(text: str, name: str = "") -> Schedule:
    """The schedule that is written in `text`, in any form that `looks_like_schedule` knows, checked.

    Raises ScheduleError for a text that cannot be read, by line and word, and for a schedule that cannot run.
    """
    return Schedule.parse(text, name=name).check()
