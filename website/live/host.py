"""What a page of the site asks of Python: one call after another, words and plain data in both directions.

`call` takes JSON, {"call": name, "with": arguments}, and gives {"value": ...}, or {"error": one sentence}; with it
"kept", the learner's file, if that has changed. What happens meanwhile goes over `wire`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gpipe_edu as ge
from gpipe_edu.base import store
from gpipe_edu.base.atomic_write import write_whole

from . import page_widgets, wire
from .typed_schedule import as_csv, judge, recipe

_FETCHED_LATER = {"matplotlib": re.compile(r"\b(matplotlib|gpipe_edu\.view)\b")}
"""Packages that only some cells need, and a pattern for what such a cell names."""


def start(post: Callable[[str], None]) -> None:
    """To be called first. post: takes what goes to the page while it waits, as JSON."""
    wire.connect(post)
    sys.modules["anywidget"] = page_widgets


def cells() -> None:
    """From now on cells can be run; what shows their results needs NumPy."""
    from . import run_cells

    run_cells.start()


def run(cell: str, number: int, code: str) -> dict[str, Any]:
    """Run a cell: see `run_cells.run`."""
    from . import run_cells

    return run_cells.run(cell, number, code)


def packages(code: str) -> list[str]:
    """What has to be fetched before a cell can run."""
    return [name for name, named in _FETCHED_LATER.items() if named.search(code)]


def puzzle(level: str = "", share: str = "") -> dict[str, Any]:
    """A puzzle: its number, for messages, and its state. level, share: as for `ge.puzzle`."""
    widget = ge.puzzle(level, share=share)
    return {"widget": widget.number, "state": widget.open()}


def message(widget: int, content: Any, buffers: Sequence[str] = ()) -> None:
    """A message to a widget; it answers over the wire. buffers: in base64."""
    page_widgets.widgets[widget].hear(content, buffers)


def update(widget: int, state: dict[str, Any]) -> None:
    """Take over what a page has changed in a widget's state."""
    page_widgets.widgets[widget].update(state)


def keep(text: str) -> None:
    """The learner's file as the page keeps it: from the last visit, or from another tab."""
    store.path().parent.mkdir(parents=True, exist_ok=True)
    write_whole(store.path(), text, private=True)


_CALLS: dict[str, Callable[..., Any]] = {
    "cells": cells,
    "run": run,
    "packages": packages,
    "puzzle": puzzle,
    "message": message,
    "update": update,
    "schedule": judge,
    "recipe": recipe,
    "csv": as_csv,
    "keep": keep,
}


def call(request: str) -> str:
    """Do what the page asks; it always gets an answer."""
    asked = json.loads(request)
    before = _kept()
    try:
        answer = {"value": _CALLS[asked["call"]](**asked["with"])}
    except Exception as error:  # a page shows a sentence, not a stack trace
        answer = {"error": f"{type(error).__name__}: {error}"}
    after = _kept()
    return json.dumps(answer if after == before else {**answer, "kept": after})


def _kept() -> str:
    try:
        return store.path().read_text(encoding="utf-8")
    except OSError:
        return ""
