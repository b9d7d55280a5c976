"""The exercises: one folder each in `tasks`, found by its name. `tasks/ex06_partition/` is "ex06/partition".

A folder holds

    messages.toml  every sentence that a learner may read (see `Exercise`)
    check.py       examine(exam, rng)  asks for answers and judges them, in the judge's process
    perform.py     what calls the function, in the learner's process, plain data in and plain data out:
                   perform(function, ...)  question and answer are NamedTuples if they have many fields
                   HIDDEN      optional: what in this package would give the answer away -> how it is refused
                   unpack      optional: `Forwarded`, if perform hands the function on to other processes

and what else only its judge needs. No task knows another; what several share stands in `judge`, or, for the learner's
process, in `judge/guest`. Every check is written with `case.py`; `judge/messages.toml` has the sentences that any
exercise may need.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

from gpipe_edu.base.words import join_words

_FOLDER: Final = re.compile(r"ex\d\d_\w+")

_TASKS: Final = "gpipe_edu.judge.tasks"


HINTS: Final = 3
"""How many each exercise has, from small to large."""


class Exercise(NamedTuple):
    """One function that a learner writes, and the sentences of its `messages.toml`.

    notebook: the name of the notebook it stands in. hints: from small to large. hints_for: a hint for answers that show
    a slip or break a promise, where the three are about what they have right. seconds: how long all calls of a check
    may take together. needs_torch: whether answers load PyTorch, which takes part of their seconds on a learner's
    machine. cases: about how often a right answer is called. success: what is said of a right answer. gives: what every
    call is to give, told when one raises an error and its case does not say it.
    slips: what is said of each misconception. promises: the slips that leave an answer right,
    each with the promise that it breaks. part: its place among the exercises of one notebook.
    predictions: see `course.predictions.question`.
    """

    key: str
    function: str
    title: str
    notebook: str
    hints: tuple[str, ...]
    success: str
    slips: Mapping[str, str]
    promises: Mapping[str, str] = {}
    hints_for: Mapping[str, str] = {}
    gives: str = ""
    seconds: float = 4.0
    needs_torch: bool = False
    part: int = 1
    cases: int = 1
    predictions: Mapping[str, Any] = {}

    @property
    def module(self) -> str:
        """The name of what calls the function, in the learner's process."""
        return f"{_TASKS}.{folder_of(self.key)}.perform"

    @property
    def perform(self) -> Any:
        """The module of that name."""
        return importlib.import_module(self.module)

    @property
    def check(self) -> Any:
        """The module of its judge."""
        return importlib.import_module(f"{_TASKS}.{folder_of(self.key)}.check")

    @property
    def lacks(self) -> str:
        """What its answers need and this Python lacks, in a sentence; "" if they can be judged here."""
        if not self.needs_torch or importlib.util.find_spec("torch"):
            return ""
        if sys.platform == "emscripten":
            return f"{self.key} needs PyTorch, which no browser runs"
        return f'{self.key} needs PyTorch, which is not here: python -m pip install "gpipe_edu[torch]"'

    @property
    def cell(self) -> str:
        """What the names of its cells begin with."""
        return self.key.replace("/", "-")

    def cost(self, broken: Iterable[str]) -> float:
        """The share of a class's points, from 0 to 1, that an answer loses if it is right but for these slips."""
        scheme = _shared()["promises"]
        return float(min(scheme["at_most"], scheme["costs"] * len({self.promises[slip] for slip in broken})))

    def hint_for(self, slip: str) -> str:
        """The hint for those in whose answer this slip shows, "" if the three must do."""
        return self.hints_for.get(self.promises.get(slip, slip), "")

    def sentence(self, slip: str, words: Mapping[str, object]) -> str:
        """What is said of a slip, with `words` in place of their names. Raises KeyError if there is no sentence."""
        # A word may be a name that the answer gave to something: in a Markdown sentence it must not become a link.
        shown = {name: re.sub(r"[\[\]<>]", "", word) if isinstance(word, str) else word for name, word in words.items()}
        return self.slips[slip].format_map(shown)


@cache
def all_exercises() -> dict[str, Exercise]:
    """All exercises by key, in reading order."""
    known = map(_exercise, keys())
    return {one.key: one for one in sorted(known, key=lambda one: (one.key[:4], one.part))}


def keys() -> list[str]:
    """The keys that the folders are named for, whether or not their contents can be read."""
    names = [folder.name for folder in files(_TASKS).iterdir() if _FOLDER.fullmatch(folder.name)]
    return sorted(name[:4] + "/" + name[5:].replace("_", "-") for name in names)


def find_exercise(key: str) -> Exercise:
    """The exercise `key`. Raises TypeError, ValueError for what is not a key, naming the keys."""
    if not isinstance(key, str):
        raise TypeError(f'the exercise is {key!r}; it must be a key such as "{next(iter(all_exercises()))}"')
    if key not in all_exercises():
        if parts := parts_of(key):
            keys = join_words((one.key for one in parts), last=" and ")
            raise ValueError(f"{key} has {keys}: name {'one of them' if parts[1:] else 'that'}")
        near = difflib.get_close_matches(key, all_exercises(), n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"there is no exercise {key!r}; there are {', '.join(all_exercises())}{hint}")
    return all_exercises()[key]


def parts_of(number: str) -> list[Exercise]:
    """The exercises of a number, such as "ex02"; none if there is no such number."""
    return [one for key, one in all_exercises().items() if key.partition("/")[0] == number]


def _exercise(key: str) -> Exercise:
    said, shared = _read(files(_TASKS) / folder_of(key)), _shared()
    slips = shared["slips"] | said.pop("slips")
    groups = [one if isinstance(one, list) else [one] for one in shared["promises"]["any"] + said.pop("promises", [])]
    promises = {slip: group[0] for group in groups for slip in group}
    return Exercise(key=key, hints=tuple(said.pop("hints")), slips=slips, promises=promises, **said)


@cache
def _shared() -> dict[str, Any]:
    """What holds for every exercise."""
    return _read(files(__package__))


def folder_of(key: str) -> str:
    """The name of the folder of `key`."""
    return key.replace("/", "_").replace("-", "_")


def _read(folder: Traversable) -> dict[str, Any]:
    return tomllib.loads((folder / "messages.toml").read_text(encoding="utf-8"))
