"""The predictions as a quiz for a learning platform, in GIFT, which Moodle and others read.

Options are shuffled by the platform. The explanation of an option is its feedback, shown only after the quiz.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gpipe_edu.course.predictions import question

INVENTORY: Final = (
    "01/naive-idle",
    "01/latency",
    "01/traffic",
    "02/slowest-stage",
    "04/lone-sample",
    "03/deadlock",
    "03/one-f-one-b",
    "04/zero-inside",
    "05/what-is-stored",
    "07/recompute-dropout",
    "08/eighty-percent",
    "14/copies-or-stages",
)
"""The concept inventory: the same twelve before and after the unit."""


def keys(items: str) -> list[str]:
    """The predictions that `items` names: "inventory", a lesson such as "03", or keys separated by commas."""
    if items == "inventory":
        return list(INVENTORY)
    if items in question.lessons():
        return question.keys(items)
    return [part.strip() for part in items.split(",")]


def gift(wanted: Sequence[str], category: str) -> str:
    """The quiz as GIFT. Raises ValueError for a prediction that does not exist."""
    parts = [f"$CATEGORY: {category}"]
    for key in wanted:
        asked = question.find(key)
        options = [
            f"\t{'=' if name == asked.answer else '~'}{_escape(text)}#{_escape(asked.wrong.get(name, asked.because))}"
            for name, text in asked.options.items()
        ]
        feedback = f"\t####{_escape(asked.because)}"
        parts.append("\n".join([f"::{_escape(key)}::[markdown]{_escape(asked.text)}{{", *options, feedback, "}"]))
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    """Text without anything that GIFT takes as markup; a blank line would end the question."""
    text = re.sub(r"([\\~=#{}:])", r"\\\1", text.strip())
    return re.sub(r"\n", r"\\n", text)
