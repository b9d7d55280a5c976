"""Predict before you run: a question that shows its answer only to those who have committed to one of their own.

A wrong prediction is what makes the explanation stick, so before the commit the answer is neither in the notebook nor
on the page. Answers are stored in the learner's file (see `store`), so a restarted kernel shows them again.
"""

from __future__ import annotations

from gpipe_edu.base import store
from gpipe_edu.course.notebook import frontend, output

from .choice import Choice
from .commit import SECTION, Outcome, as_text, commit, recall, verdict
from .question import find


def predict(key: str, answer: object = None) -> None:
    """Ask the question `key`, such as "03/first-backward"; with an `answer`, such as "B", commit to it instead.

    In a notebook you click. The first commit counts: the answer is then shown, and `forget(key)` lets you try again.
    Cells that *Run All* has queued behind an open question wait: run them once you have committed. Raises ValueError
    for a key or an answer that does not exist, naming those that do.
    """
    question = find(key).shuffle()
    if answer is not None:
        output.show(verdict(question, commit(question, question.read(answer))))
        return
    outcome, notebook = recall(question), frontend.current()
    if notebook:
        _display(notebook, question, outcome)
    else:
        output.show(as_text(question, outcome))


def forget(key: str) -> None:
    """Let a question be answered again, as if for the first time. Raises ValueError for a key that does not exist."""
    question = find(key)
    with store.change(SECTION) as kept:
        kept.pop(question.key, None)


def _display(notebook: frontend.Frontend, question: Choice, outcome: Outcome | None) -> None:
    try:
        from .widget import Prediction
    except ModuleNotFoundError:  # without anywidget the text serves, with predict(key, "A") to commit
        output.show(as_text(question, outcome))
    else:
        notebook.display(Prediction(question, outcome))
    if outcome is None:
        notebook.abort_queued_cells()
