"""Committed answers: stored in the learner's file, and the verdict on them."""

from __future__ import annotations

from typing import Final, NamedTuple

from gpipe_edu.base import store

from .choice import Choice

SECTION = "predictions"
"""The section of the learner's file."""
_MOVED: Final = {"03/three-formulas": "11/three-formulas"}
"""Questions that have moved to another lesson, and their old keys: an answer given there counts."""


class Outcome(NamedTuple):
    """The answer committed to, as stored, and any trouble in storing it."""

    chosen: str
    trouble: str = ""


def recall(question: Choice) -> Outcome | None:
    """What was committed earlier; None if nothing was, or an option that this edition no longer has."""
    try:
        kept = store.read(SECTION)
    except OSError:  # an unreadable folder holds no answers of ours
        return None
    chosen = kept.get(question.key, kept.get(_MOVED.get(question.key, "")))
    return Outcome(chosen) if question.knows(chosen) else None


def commit(question: Choice, chosen: str) -> Outcome:
    """Store `chosen`, unless an answer is already stored, which then counts."""
    try:
        with store.change(SECTION) as kept:
            if not question.knows(kept.get(question.key)):
                kept[question.key] = chosen
            return Outcome(kept[question.key], "" if kept[question.key] == chosen else _earlier(question, chosen))
    except OSError as error:
        return Outcome(
            chosen, f"Your answer could not be kept ({error}). Set {store.HOME} to a folder you may write to."
        )


def verdict(question: Choice, outcome: Outcome) -> str:
    """The sentences a reader gets after the commit, as Markdown."""
    return "\n\n".join(filter(None, [f"{question.explain(outcome.chosen)} {question.because}", outcome.trouble]))


def as_text(question: Choice, outcome: Outcome | None) -> str:
    """The question for a terminal, and for pages where no kernel runs; with the verdict once there is one."""
    return f"Predict. {question.text}\n\n{verdict(question, outcome) if outcome else question.offer()}"


def _earlier(question: Choice, chosen: str) -> str:
    return f'(Not {question.as_seen(chosen)}: the first answer counts. To answer anew: forget("{question.key}").)'
