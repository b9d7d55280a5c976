"""Predict before you run: a question that shows its answer only to those who have committed to one of their own.

A wrong prediction is what makes the explanation stick, so the answer is neither in the notebook nor in what the page
gets before the commit. An answer is kept in the learner's file (see `store`): a restarted kernel shows it again.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from gpipe_edu import store

from . import page
from .question import Question, find, letter

_SECTION = "predictions"


class Outcome(NamedTuple):
    """What came of a question: the option committed to, and any trouble in keeping it."""

    chosen: str
    trouble: str = ""


def predict(key: str, answer: str | None = None) -> None:
    """Ask the question `key`, such as "03/first-backward"; with an `answer`, such as "B", commit to it instead.

    In a notebook the question has buttons. The first commit counts: the answer is shown then, and `forget(key)` lets
    you try again. Raises ValueError for a key or an option that does not exist, naming those that do.
    """
    question = find(key)
    if answer is not None:
        outcome = commit(question, letter(question, answer))
        page.show(verdict(question, outcome))
    elif page.in_a_notebook():
        _display(question, recall(question))
    else:
        page.show(as_text(question, recall(question)))


def forget(key: str) -> None:
    """Let a question be answered again, as if it had never been. Raises ValueError for a key that does not exist."""
    question = find(key)
    with store.change(_SECTION) as kept:
        kept.pop(question.key, None)


def recall(question: Question) -> Outcome | None:
    """What was committed earlier; None if nothing was, or an option that a new edition no longer has."""
    try:
        chosen = store.read(_SECTION).get(question.key)
    except OSError:  # a folder one may not read holds no answers of ours
        return None
    return Outcome(chosen) if chosen in list(question.options) else None  # a list, for a file may hold anything


def commit(question: Question, chosen: str) -> Outcome:
    """Keep `chosen`, unless an answer is kept already: then that one counts."""
    try:
        with store.change(_SECTION) as kept:
            if kept.get(question.key) not in list(question.options):
                kept[question.key] = chosen
            return Outcome(kept[question.key], "" if kept[question.key] == chosen else _earlier(question, chosen))
    except OSError as error:
        return Outcome(
            chosen, f"Your answer could not be kept ({error}). Set {store.HOME} to a folder you may write to."
        )


def verdict(question: Question, outcome: Outcome) -> str:
    """The sentences a reader gets after the commit, as Markdown."""
    chosen, right = outcome.chosen, question.answer
    compared = f"You said {chosen}, and {right} it is." if chosen == right else f"You said {chosen}. It is {right}."
    return "\n\n".join(filter(None, [f"{compared} {question.because}", outcome.trouble]))


def as_text(question: Question, outcome: Outcome | None) -> str:
    """The question for a terminal, and for pages where no kernel runs; with the verdict once there is one."""
    options = "\n".join(f"- {name}. {text}" for name, text in question.options.items())
    last = verdict(question, outcome) if outcome else f'Commit with predict("{question.key}", "A"), or another letter.'
    return f"Predict. {question.text}\n\n{options}\n\n{last}"


def _earlier(question: Question, chosen: str) -> str:
    return f'(Not {chosen}: the first answer counts. To answer anew: forget("{question.key}").)'


def _display(question: Question, outcome: Outcome | None) -> None:
    try:
        from .prediction_widget import Prediction
    except ModuleNotFoundError:  # without anywidget the text does, with predict(key, "A") to commit
        page.show(as_text(question, outcome))
    else:
        display: Any = import_module("IPython.display").display
        display(Prediction(question, outcome))
