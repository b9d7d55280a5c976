"""The questions that come before a surprise, read from a file per lesson, so that a notebook does not hold its answers.

A file is `predictions/05.toml`, and its entry [what-is-stored] is asked for as "05/what-is-stored". Those of an
exercise stand in its `messages.toml`, as [predictions.what-is-stored], and are asked for as "ex05/what-is-stored".
`choice.py` says what an entry holds.

An entry of an appendix says optional = true: a lesson can be complete without it.
"""

from __future__ import annotations

import difflib
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from gpipe_edu.judge.exercise import all_exercises

from .choice import Choice, choice

_FIELDS: Final = {"question", "options", "answer", "wrong", "because"}


def lessons() -> list[str]:
    """The lessons that have predictions: ["00", "01", ...]."""
    files = (file.name for file in _folder().iterdir())
    return sorted({key[:4] for key in all_exercises()} | {name[:-5] for name in files if name.endswith(".toml")})


def keys(lesson: str) -> list[str]:
    """The keys of a lesson's predictions, in the order of its file."""
    return [f"{lesson}/{name}" for name in _entries(lesson)]


def find(key: str) -> Choice:
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


def _question(key: str, entry: Any) -> Choice:
    """The entry of a file, checked, so its writer learns of a slip when the cell is first run."""
    given = dict(entry) if isinstance(entry, dict) else {}
    if not isinstance(given.pop("optional", False), bool):
        raise ValueError(f"{key} has optional = {entry['optional']!r}; it must be true or false")
    if given.keys() != _FIELDS:
        raise ValueError(f"{key} has {sorted(given)}; it must have {', '.join(sorted(_FIELDS))}")
    return choice(key, given)


def _known(names: list[str]) -> str:
    return f"the lessons with predictions are {', '.join(names)}" if names else "no lesson has predictions yet"
