"""The prediction in a notebook: something to choose, drag, click or draw, a button, and the verdict after the commit.

The page gets the question, and the answer only as the reply to a commit, so it cannot be seen before, not even in the
widget's state. The controls are our own, because those of ipywidgets cannot keep their keys from Notebook 7, where an
"a" on a button inserts a cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import anywidget
import traitlets
from markdown_it import MarkdownIt

from gpipe_edu.view.gantt.assets import asset, widget_module
from gpipe_edu.view.theme import DARK_HOSTS

from .commit import Outcome, as_text, commit, verdict
from .question_kind import Question

_DARK = "--ge-accent: #6fb7ff; --ge-won: #7fd694; --ge-lost: #ff8a80; color-scheme: dark;"

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


class Prediction(anywidget.AnyWidget):
    """One question on the page. `outcome` is {} until there is one: then the answer, the right one and the verdict."""

    _esm: ClassVar[str] = widget_module("course/predictions/js/prediction.js")
    _css: ClassVar[str] = (
        f"{asset('course/predictions/js/prediction.css')}\n{DARK_HOSTS} .ge-prediction {{ {_DARK} }}\n"
    )

    kind = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, question: Question, outcome: Outcome | None) -> None:
        self._asked, self._found = question, outcome
        super().__init__(
            kind=question.kind,
            question=_MARKDOWN.render(question.text),
            asked=_render(question.page()),
            outcome=self._reply(outcome) if outcome else {},
        )
        self.on_msg(self._commit)

    def _commit(self, widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
        self._found = commit(self._asked, self._asked.read(content["commit"]))
        self.outcome = self._reply(self._found)

    def _reply(self, outcome: Outcome) -> dict[str, Any]:
        return {
            "chosen": self._asked.as_seen(outcome.chosen),
            "solution": self._asked.solution(),
            "right": self._asked.right(outcome.chosen),
            "words": _MARKDOWN.render(verdict(self._asked, outcome)),
        }

    def __repr__(self) -> str:
        return as_text(self._asked, self._found)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if found is None:
            return None
        data, metadata = found if isinstance(found, tuple) else (found, {})
        # For pages without widgets; the default text holds a memory address, which changes with each run.
        return {**data, "text/markdown": repr(self), "text/plain": repr(self)}, metadata


def _render(asked: dict[str, Any]) -> dict[str, Any]:
    """The options of a choice are Markdown; nothing else on a page is."""
    options = [[name, _MARKDOWN.renderInline(text)] for name, text in asked.get("options", ())]
    return {**asked, "options": options} if options else asked
