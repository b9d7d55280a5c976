"""Predict before you run: a question that shows its answer only to those who have committed to one of their own.

A wrong prediction is what makes the explanation stick, so the answer is neither in the notebook nor in what the page
gets before the commit. An answer is kept in the learner's file (see `store`): a restarted kernel shows it again.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from gpipe_edu import store

from . import lined_up, page
from .kind import Question
from .question import find, formerly

_SECTION = "predictions"


class Outcome(NamedTuple):
    """What came of a question: the answer committed to, as it is kept, and any trouble in keeping it."""

    chosen: Any
    trouble: str = ""


def predict(key: str, answer: object = None) -> None:
    """Ask the question `key`, such as "03/first-backward"; with an `answer`, such as "B", commit to it instead.

    In a notebook one chooses, drags, clicks or draws. The first commit counts: the answer is shown then, and
    `forget(key)` lets you try again. Cells that *Run All* has lined up behind an open question wait: run them when you
    have committed. Raises ValueError for a key or an answer that does not exist, naming those that do.
    """
    question = find(key).shuffled()
    if answer is not None:
        outcome = commit(question, question.read(answer))
        page.show(verdict(question, outcome))
    elif page.in_a_notebook():
        _display(question, recall(question))
    else:
        page.show(as_text(question, recall(question)))


def forget(key: str) -> None:
    """Let a question be answered again, as if it had never been. Raises ValueError for a key that does not exist."""
    question = find(key)
    with store.change(_SECTION) as kept:
        _move(kept, question)
        kept.pop(question.key, None)


def recall(question: Question) -> Outcome | None:
    """What was committed earlier; None if nothing was, or an option that a new edition no longer has."""
    try:
        kept = store.read(_SECTION)
    except OSError:  # a folder one may not read holds no answers of ours
        return None
    _move(kept, question)
    chosen = kept.get(question.key)
    return Outcome(chosen) if question.knows(chosen) else None


def commit(question: Question, chosen: Any) -> Outcome:
    """Keep `chosen`, unless an answer is kept already: then that one counts."""
    try:
        with store.change(_SECTION) as kept:
            _move(kept, question)
            if not question.knows(kept.get(question.key)):
                kept[question.key] = chosen
            return Outcome(kept[question.key], "" if kept[question.key] == chosen else _earlier(question, chosen))
    except OSError as error:
        return Outcome(
            chosen, f"Your answer could not be kept ({error}). Set {store.HOME} to a folder you may write to."
        )


def verdict(question: Question, outcome: Outcome) -> str:
    """The sentences a reader gets after the commit, as Markdown."""
    return "\n\n".join(filter(None, [f"{question.told(outcome.chosen)} {question.because}", outcome.trouble]))


def as_text(question: Question, outcome: Outcome | None) -> str:
    """The question for a terminal, and for pages where no kernel runs; with the verdict once there is one."""
    return f"Predict. {question.text}\n\n{verdict(question, outcome) if outcome else question.offered()}"


def _move(kept: store.Section, question: Question) -> None:
    """An answer given when the question stood in another lesson counts where it stands now."""
    before = kept.pop(formerly(question), None)
    if before is not None:
        kept.setdefault(question.key, before)


def _earlier(question: Question, chosen: Any) -> str:
    return f'(Not {question.shown(chosen)}: the first answer counts. To answer anew: forget("{question.key}").)'


def _display(question: Question, outcome: Outcome | None) -> None:
    try:
        from .prediction_widget import Prediction
    except ModuleNotFoundError:  # without anywidget the text does, with predict(key, "A") to commit
        page.show(as_text(question, outcome))
    else:
        display: Any = import_module("IPython.display").display
        display(Prediction(question, outcome))
    if outcome is None:
        lined_up.give_back()
