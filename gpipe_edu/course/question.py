"""The questions that come before a surprise, read from a file per lesson, so that a notebook does not hold its answers.

A file is `predictions/05.toml`; an entry in it looks like this and is asked for as "05/what-is-stored". Those of an
exercise stand in its `said.toml`, as [predictions.what-is-stored], and are asked for as "ex05/what-is-stored".

    [what-is-stored]
    question = "..."                  # Markdown, one or two sentences
    options = ["...", "...", "..."]   # shown as A, B, C
    answer = "B"
    because = "..."                   # Markdown; shown only after a reader has committed
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import ascii_uppercase
from typing import Any, Final, NamedTuple

from .exercise import exercises

_FIELDS: Final = {"question", "options", "answer", "because"}


class Question(NamedTuple):
    """One question: its texts are Markdown, `options` maps letters to what they stand for."""

    key: str
    text: str
    options: dict[str, str]
    answer: str
    because: str


def lessons() -> list[str]:
    """The lessons that have predictions: ["00", "01", ...]."""
    files = (file.name for file in _folder().iterdir())
    return sorted({key[:4] for key in exercises()} | {name[:-5] for name in files if name.endswith(".toml")})


def keys(lesson: str) -> list[str]:
    """The keys of a lesson's predictions, in the order of its file."""
    return [f"{lesson}/{name}" for name in _entries(lesson)]


def find(key: str) -> Question:
    """The question of that key. Raises TypeError for what is no text, ValueError for one that does not exist."""
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


def letter(question: Question, answer: str) -> str:
    """The option that `answer` names, a small letter being as good. Raises TypeError, ValueError for anything else."""
    if not isinstance(answer, str):
        raise TypeError(f"answer is {answer!r}; it must be {_either(question.options)}, as text")
    given = answer.strip().upper()
    if given not in question.options:
        raise ValueError(f"answer is {answer!r}; {question.key} allows {_either(question.options)}")
    return given


def _folder() -> Traversable:
    return files("gpipe_edu.course").joinpath("predictions")


def _entries(lesson: str) -> dict[str, Any]:
    mine = [one for one in exercises().values() if one.key.startswith(f"{lesson}/")]
    if mine:
        return {name: entry for one in mine for name, entry in one.predictions.items()}
    try:
        return tomllib.loads(_folder().joinpath(f"{lesson}.toml").read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"predictions/{lesson}.toml is not valid TOML: {error}") from error


def _question(key: str, entry: Any) -> Question:
    """The entry of a file, checked: its writer learns of a slip when the cell is first run."""
    fields = set(entry) if isinstance(entry, dict) else set()
    if fields != _FIELDS:
        raise ValueError(f"{key} has {sorted(fields)}; it must have {', '.join(sorted(_FIELDS))}")
    if not isinstance(entry["options"], list) or not 2 <= len(entry["options"]) <= 6:
        raise ValueError(f"{key} has options {entry['options']!r}; it must be a list of 2 to 6 texts")
    texts = [entry["question"], entry["because"], *entry["options"]]
    if not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"{key} has an empty text, or one that is no text")
    options = dict(zip(ascii_uppercase, (text.strip() for text in entry["options"]), strict=False))
    if entry["answer"] not in options:
        raise ValueError(f"{key} has answer {entry['answer']!r}; it must be {_either(options)}")
    return Question(key, entry["question"].strip(), options, entry["answer"], entry["because"].strip())


def _either(letters: Iterable[str]) -> str:
    *most, last = letters
    return f"{', '.join(most)} or {last}"


def _known(names: list[str]) -> str:
    return f"the lessons with predictions are {', '.join(names)}" if names else "no lesson has predictions yet"
