"""What a page of the site asks of Python: one call after another, words and plain data in both directions.

`call` takes JSON, {"call": name, "with": arguments}, and gives {"value": ...}, or {"error": one sentence}; with it
"kept", the learner's file, if that has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from typed_schedule import judge, recipe  # type: ignore[import-not-found]  # in a page it lies beside this file

import gpipe_edu as ge
from gpipe_edu import store
from gpipe_edu.writing import write_whole

_widgets: list[Any] = []


def puzzle(level: str = "", share: str = "", unlock: bool = False) -> dict[str, Any]:
    """A puzzle: its number, for messages, and its state. level, share, unlock: as for `ge.puzzle`."""
    widget = ge.puzzle(level, share=share, unlock=unlock)
    _widgets.append(widget)
    return {"widget": len(_widgets) - 1, "state": widget.synced()}


def message(widget: int, content: dict[str, Any]) -> dict[str, Any]:
    """A message to a widget: what has changed of its state, and what it says."""
    shown = _widgets[widget]
    before, shown.sent = shown.synced(), []
    shown.hear(content)
    changed = {name: value for name, value in shown.synced().items() if value != before[name]}
    return {"changed": changed, "said": shown.sent}


def keep(text: str) -> None:
    """The learner's file as the page keeps it: from the last visit, or from another tab."""
    store.path().parent.mkdir(parents=True, exist_ok=True)
    write_whole(store.path(), text, private=True)


_CALLS: dict[str, Callable[..., Any]] = {
    "puzzle": puzzle,
    "message": message,
    "schedule": judge,
    "recipe": recipe,
    "keep": keep,
}


def call(request: str) -> str:
    """Do what the page asks; it always gets an answer."""
    asked = json.loads(request)
    before = _kept()
    try:
        answer = {"value": _CALLS[asked["call"]](**asked["with"])}
    except Exception as error:  # a page shows a sentence, and no stack
        answer = {"error": f"{type(error).__name__}: {error}"}
    after = _kept()
    return json.dumps(answer if after == before else {**answer, "kept": after})


def _kept() -> str:
    try:
        return store.path().read_text(encoding="utf-8")
    except OSError:
        return ""
