"""The prediction in a notebook: its options, a button, and the verdict after the commit.

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

from .choice import Choice
from .commit import Outcome, as_text, commit, verdict

_DARK = "--ge-accent: #6fb7ff; --ge-won: #7fd694; --ge-lost: #ff8a80; color-scheme: dark;"

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


class Prediction(anywidget.AnyWidget):
    """One question on the page. `outcome` is {} until there is one: then the answer, the right one and the verdict."""

    _esm: ClassVar[str] = widget_module("course/predictions/js/prediction.js")
    _css: ClassVar[str] = (
        f"{asset('course/predictions/js/prediction.css')}\n{DARK_HOSTS} .ge-prediction {{ {_DARK} }}\n"
    )

    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, question: Choice, outcome: Outcome | None) -> None:
        self._asked, self._found = question, outcome
        super().__init__(
            question=_MARKDOWN.render(question.text),
            options=[[letter, _MARKDOWN.renderInline(text)] for letter, text in question.page()],
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
