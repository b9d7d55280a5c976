"""The questions that come before a surprise, read from a file per lesson, so that a notebook does not hold its answers.

A file is `predictions/05.toml`, and its entry [what-is-stored] is asked for as "05/what-is-stored". Those of an
exercise stand in its `messages.toml`, as [predictions.what-is-stored], and are asked for as "ex05/what-is-stored". What
an entry holds depends on its kind: see `choice.py`, `bar.py`, `click.py` and `curve.py`.

An entry of an appendix says optional = true: a lesson can be complete without it.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from gpipe_edu.judge.exercise import all_exercises

from .bar import bar
from .choice import choice
from .click import click
from .curve import curve
from .question_kind import Question

_ANY: Final = {"question", "answer", "because"}
_KINDS: Final[dict[str, tuple[set[str], Callable[[str, Mapping[str, Any]], Question]]]] = {
    "choice": ({"options", "wrong"}, choice),
    "bar": ({"chart", "longest", "near", "step", "low", "high"}, bar),
    "click": ({"chart", "among", "device", "other"}, click),
    "curve": ({"at", "across", "up", "near", "low", "high"}, curve),
}
"""For every kind: its fields beyond the common ones, and the function that makes a question from an entry."""


def lessons() -> list[str]:
    """The lessons that have predictions: ["00", "01", ...]."""
    files = (file.name for file in _folder().iterdir())
    return sorted({key[:4] for key in all_exercises()} | {name[:-5] for name in files if name.endswith(".toml")})


def keys(lesson: str) -> list[str]:
    """The keys of a lesson's predictions, in the order of its file."""
    return [f"{lesson}/{name}" for name in _entries(lesson)]


def find(key: str) -> Question:
    """The question of that key. Raises TypeError for what is not a string, ValueError for what does not exist."""
    if not isinstance(key, str):
        raise TypeError(f'key is {key!r}; it must be text such as "03/first-backward"')
    lesson, _, name = key.partition("/")
    if lesson not in lessons():
        raise ValueError(f"there is no prediction {key!r}: a key is a lesson and a name, and {_known(lessons())}")
    entries = _entries(lesson)
    if name not in entries:
        near = difflib.get_close_matches(name, entries, n=1)
        hint = f'; did you mean "{lesson}/{near[0]}"?' if near else ""
        raise ValueError(f"there is no prediction {key!r}; lesson {lesson} has {', '.join(entries)}{hint}")
    return _question(key, entries[name])


def optional(key: str) -> bool:
    """Whether a lesson can be complete without this question, because it is in an optional part."""
    lesson, _, name = key.partition("/")
    return bool(_entries(lesson)[name].get("optional", False))


def _folder() -> Traversable:
    return files(__package__)


def _entries(lesson: str) -> dict[str, Any]:
    mine = [one for one in all_exercises().values() if one.key.startswith(f"{lesson}/")]
    if mine:
        return {name: entry for one in mine for name, entry in one.predictions.items()}
    try:
        return tomllib.loads(_folder().joinpath(f"{lesson}.toml").read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"predictions/{lesson}.toml is not valid TOML: {error}") from error


def _question(key: str, entry: Any) -> Question:
    """The entry of a file, checked, so its writer learns of a slip when the cell is first run."""
    given = dict(entry) if isinstance(entry, dict) else {}
    kind = given.pop("kind", "choice")
    if not isinstance(given.pop("optional", False), bool):
        raise ValueError(f"{key} has optional = {entry['optional']!r}; it must be true or false")
    if kind not in _KINDS:
        raise ValueError(f"{key} has kind {kind!r}; it must be one of {', '.join(_KINDS)}")
    own, make = _KINDS[kind]
    if given.keys() != _ANY | own:
        raise ValueError(f"{key} has {sorted(given)}; it must have {', '.join(sorted(_ANY | own))}")
    return make(key, given)


def _known(names: list[str]) -> str:
    return f"the lessons with predictions are {', '.join(names)}" if names else "no lesson has predictions yet"
