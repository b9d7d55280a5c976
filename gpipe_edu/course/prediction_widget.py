"""The prediction in a notebook: options to choose from, a button, and the verdict after the commit.

The page gets question and options, and the answer only as the reply to a commit, so nobody can see it before, not even
in the widget's state. Own controls, because those of ipywidgets cannot keep their keys from Notebook 7, where an "a"
on a button inserts a cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, ClassVar

import anywidget
import traitlets
from markdown_it import MarkdownIt

from .predict import Outcome, as_text, commit, verdict
from .question import Question, letter

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def _asset(name: str) -> str:
    return files("gpipe_edu.course").joinpath(name).read_text(encoding="utf-8")


class Prediction(anywidget.AnyWidget):
    """One question on the page. `outcome` is {} until there is one: then the letters and the verdict."""

    _esm: ClassVar[str] = _asset("prediction.js")
    _css: ClassVar[str] = _asset("prediction.css")

    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    outcome = traitlets.Dict().tag(sync=True)

    def __init__(self, question: Question, outcome: Outcome | None) -> None:
        self._asked, self._found = question, outcome
        super().__init__(
            question=_MARKDOWN.render(question.text),
            options=[[name, _MARKDOWN.renderInline(text)] for name, text in question.options.items()],
            outcome=self._reply(outcome) if outcome else {},
        )
        self.on_msg(self._commit)

    def _commit(self, widget: Any, content: Mapping[str, Any], buffers: Any) -> None:
        self._found = commit(self._asked, letter(self._asked, content["commit"]))
        self.outcome = self._reply(self._found)

    def _reply(self, outcome: Outcome) -> dict[str, str]:
        words = _MARKDOWN.render(verdict(self._asked, outcome))
        return {"chosen": outcome.chosen, "right": self._asked.answer, "words": words}

    def __repr__(self) -> str:
        return as_text(self._asked, self._found)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        if found is None:
            return None
        data, metadata = found if isinstance(found, tuple) else (found, {})
        # What pages show that know no widgets; the default text holds an address, another one each time.
        return {**data, "text/markdown": repr(self), "text/plain": repr(self)}, metadata
