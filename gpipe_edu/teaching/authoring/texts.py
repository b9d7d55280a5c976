"""Problems with an exercise that can be found without running an answer.

Each function takes the material and yields problems. `readable` comes first: with an unreadable messages.toml the
package cannot even list its exercises, so nothing else can be checked.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from gpipe_edu import judge
from gpipe_edu.base.words import with_article
from gpipe_edu.course.building import percent_format
from gpipe_edu.course.building.build import notebook_text
from gpipe_edu.course.building.places import ROOT
from gpipe_edu.course.predictions import question
from gpipe_edu.judge.exercise import HINTS, Exercise
from gpipe_edu.schedule.doctor import CODES
from gpipe_edu.teaching.grading import marks

from .material import COURSE, PARTS, Entry, Material, Shortcoming, relative

HINT: Final = (40, 500)
"""The shortest and the longest hint, in characters."""

WRONG, RIGHT = 8, 2
"""The fewest misconceptions and the fewest right answers of a bank."""

_NOT_THE_ANSWERS: Final = {"cannot-run", "strange"}
"""Shared slips that no bank can trigger: one stands for the doctor's codes, the other for a judge that fails."""


def readable(material: Material) -> Iterator[Shortcoming]:
    """A messages.toml that does not make an exercise."""
    where = relative(material.messages)
    for name in sorted(PARTS):
        if not (material.folder / name).is_file():
            yield Shortcoming(relative(material.folder), f"there is no {name}", f"Write {name}, as in another exercise")
    try:
        said = material.sentences()
    except FileNotFoundError:
        return
    except ValueError as error:
        yield Shortcoming(where, f"it is no TOML: {error}", "Mend that line")
        return
    needed = set(Exercise._fields) - set(Exercise._field_defaults) - {"key"}
    for name in sorted(needed - said.keys()):
        yield Shortcoming(where, f"it has no {name}", f"Add {name}, as in another exercise")
    for name in sorted(said.keys() - set(Exercise._fields) | said.keys() & {"key"}):
        yield Shortcoming(where, f"{name} is nothing that an exercise has", "Take it away, or give it its right name")
    forms = {"hints": (list, str), "hints_for": (dict, str), "slips": (dict, str), "predictions": (dict, dict)}
    for name in sorted(forms.keys() & said.keys()):
        kind, inside = forms[name]
        items = said[name].values() if isinstance(said[name], dict) else said[name]
        if not isinstance(said[name], kind) or not all(isinstance(item, inside) for item in items):
            yield Shortcoming(where, f"{name} has another form", f"Write {name} as in another exercise")


def loadable(material: Material) -> Iterator[Shortcoming]:
    """A check, a bank or a master that cannot be used at all: then nothing that needs all three is checked."""
    loads: dict[Path, Callable[[], object]] = {
        material.folder / "check.py": lambda: material.exercise.check,
        material.bank: material.entries,
        material.master: lambda: (
            ast.parse(material.master.read_text(encoding="utf-8")),
            notebook_text(material.master),
        ),
    }
    for path, load in loads.items():
        try:
            load()
        except Exception as error:  # its author may have written anything there
            wrong = f"it can't be used ({type(error).__name__}: {error})"
            yield Shortcoming(relative(path), wrong, "Mend it; until then the exercise is not judged")


def unfinished(material: Material) -> Iterator[Shortcoming]:
    """Places that still say TODO."""
    for path in material.files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "TODO" in line:
                todo = line.partition("TODO")[2].strip(" :\"',.") or "what stands here"
                yield Shortcoming(
                    f"{relative(path)}:{number}", f"a TODO is left: {todo}", "Do it and take the TODO away"
                )


def sentences(material: Material) -> Iterator[Shortcoming]:
    """Empty sentences, and hints that are too few, too many or of the wrong length."""
    said, where = material.sentences(), relative(material.messages)
    named = [(name, said[name]) for name in ("function", "title", "success")]
    named += [(f"slips.{slip}", words) for slip, words in said["slips"].items()]
    named += [(f"hints[{number}]", words) for number, words in enumerate(said["hints"])]
    for name, words in named:
        if not words.strip():
            yield Shortcoming(where, f"{name} is empty", "Write the sentence")
        elif name.startswith("hints") and not HINT[0] <= len(words) <= HINT[1]:
            allowed = f"{HINT[0]} to {HINT[1]}"
            yield Shortcoming(where, f"{name} has {len(words)} characters", f"Give it {allowed}")
    for slip in sorted(said.get("hints_for", {}).keys() - material.exercise.slips.keys()):
        yield Shortcoming(where, f"hints_for has {slip}, which is no slip", "Give it a slip's name, or take it away")
    if len(said["hints"]) != HINTS:
        wrong = f"the number of hints is {len(said['hints'])}, and a learner gets {HINTS}"
        yield Shortcoming(where, wrong, f"Write {HINTS}, from small to large")


def slips(material: Material, entries: Iterable[Entry]) -> Iterator[Shortcoming]:
    """Sentences that no answer triggers or that no check uses, and slips without a sentence."""
    own, known = material.sentences()["slips"], material.exercise.slips.keys() | set(CODES)
    met = {entry.slip for entry in entries} - {""}
    code = "".join(path.read_text(encoding="utf-8") for path in _code(material))
    for slip in own:
        if slip in met:
            continue
        if re.search(rf"[\"']{re.escape(slip)}[\"']", code):
            mend = f'Add an answer with @BANK.wrong("{slip}") to {relative(material.bank)}'
            yield Shortcoming(relative(material.messages), f"no answer of the bank meets the slip {slip}", mend)
        else:
            mend = "Take the sentence away, or yield a Sign that says it"
            yield Shortcoming(relative(material.messages), f"no check ever says the slip {slip}", mend)
    for slip in sorted(met - known):
        mend = f"Write its sentence under [slips] in {relative(material.messages)}, or name a slip that is there"
        yield Shortcoming(relative(material.bank), f"an answer names the slip {slip}, which has no sentence", mend)


def shared_slips(entries: Iterable[Entry]) -> Iterator[Shortcoming]:
    """Shared sentences that no answer of any bank triggers."""
    path = Path(judge.__path__[0], "messages.toml")
    shared = tomllib.loads(path.read_text(encoding="utf-8"))["slips"]
    for slip in sorted(set(shared) - _NOT_THE_ANSWERS - {entry.slip for entry in entries}):
        wrong = f"no answer of any bank meets the shared slip {slip}"
        yield Shortcoming(relative(path), wrong, "Add one to a bank, or take the sentence away")


def bank(material: Material, entries: Sequence[Entry]) -> Iterator[Shortcoming]:
    """Banks that are too small, with names that are not unique, or without a helper of some kind."""
    where = relative(material.bank)
    wrong, right = {entry.slip for entry in entries} - {""}, [entry for entry in entries if not entry.slip]
    if len(wrong) < WRONG:
        yield Shortcoming(where, f"the number of its misconceptions is {len(wrong)}", f"Write at least {WRONG}")
    if len(right) < RIGHT:
        yield Shortcoming(where, f"the number of its right answers is {len(right)}", f"Write at least {RIGHT}")
    names = [entry.name for entry in entries]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Shortcoming(where, f"several answers are called {name}", "Give each a name of its own")
    modules = {entry.function.__module__ for entry in right}
    classes = [one for module in modules for one in vars(sys.modules[module]).values() if isinstance(one, type)]
    own = [one for one in classes if one.__module__ in modules]
    for kind, there in {
        "dataclass": any(map(dataclasses.is_dataclass, own)),
        "Enum": any(issubclass(one, enum.Enum) for one in own),
        "NamedTuple": any(issubclass(one, tuple) for one in own),
    }.items():
        if not there:
            mend = f"Use {with_article(kind)} in a right one: each kind travels to another process in a way of its own"
            yield Shortcoming(where, f"no right answer has {with_article(kind)} for a helper", mend)


def folder(material: Material) -> Iterator[Shortcoming]:
    """Files in the folder that are not used."""
    names = {alias for path in material.folder.glob("*.py") for alias in _imports(path)}
    for path in sorted(material.folder.iterdir()):
        if path.name not in {*PARTS, "__pycache__"} and not (path.suffix == ".py" and path.stem in names):
            wrong = "nothing in the exercise's folder uses this file"
            yield Shortcoming(relative(path), wrong, "Import it in check.py, or take it away")


def predictions(material: Material) -> Iterator[Shortcoming]:
    """Incomplete questions, and those that the master never asks."""
    asked = _calls(material.master, "predict")
    for name in material.exercise.predictions:
        key = f"{material.key[:4]}/{name}"
        try:
            question.find(key)
        except ValueError as error:
            yield Shortcoming(f"{relative(material.messages)} [predictions.{name}]", f"{error}", "Mend that entry")
        if asked.count(key) != 1:
            wrong = f"the question {key} is asked {asked.count(key)} times"
            yield Shortcoming(relative(material.master), wrong, f'Ask it once, in a cell: predict("{key}")')


def master(material: Material) -> Iterator[Shortcoming]:
    """A master without its check or its answer cell, and a notebook that does not match it."""
    where, wanted = relative(material.master), material.exercise
    cells = percent_format.read(material.master.read_text(encoding="utf-8"))
    if _calls(material.master, "check").count(material.key) != 1:
        yield Shortcoming(
            where, "it does not check its answer once", f'Write check("{material.key}", {wanted.function})'
        )
    answers = [cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade_id") == f"{wanted.cell}-answer"]
    if [f"{word} {wanted.function}" in cell.source for cell in answers for word in ("def", "class")].count(True) != 1:
        wrong = f"no cell with the grade_id {wanted.cell}-answer defines {wanted.function}"
        yield Shortcoming(where, wrong, "Give the cell with the stub that grade_id, as in another master")
    built = ROOT / "exercises" / f"{wanted.notebook}.ipynb"
    if not built.is_file() or built.read_text(encoding="utf-8") != notebook_text(material.master):
        yield Shortcoming(relative(built), "it is not what its master says", "Run: gpipe-edu build")


def marking(material: Material) -> Iterator[Shortcoming]:
    """Points that are missing or differ from the master's, and promises that are not slips."""
    where = relative(Path(str(files(marks.__package__) / "marking.toml")))
    in_master = _points(material)
    try:
        points = marks.points(material.key)
    except KeyError:
        yield Shortcoming(
            where, f"{material.key} has no points", f'Add "{material.key}" = {in_master or 2} under [points]'
        )
    else:
        if points != in_master:
            wrong = f"{material.key} is worth {points} points here and {in_master or 'none'} in its master"
            yield Shortcoming(where, wrong, f"Give the check cell of {relative(material.master)} the same points")
    for slip in sorted(material.exercise.promises.keys() - material.exercise.slips.keys()):
        wrong = f"{material.key} promises {slip}, which is no slip"
        yield Shortcoming(relative(material.messages), wrong, "Name one that has a sentence under [slips]")


def row(material: Material) -> Iterator[Shortcoming]:
    """A row that is missing from the course's table of exercises."""
    one = material.exercise
    if f"](../exercises/{one.notebook}.ipynb) |" not in COURSE.read_text(encoding="utf-8"):
        wanted = (
            f"| [{material.key[2:4]} ...](../exercises/{one.notebook}.ipynb) | lesson | difficulty | minutes | ... |"
        )
        yield Shortcoming(relative(COURSE), f"the table of exercises has no row for {one.notebook}", f"Add: {wanted}")


def _code(material: Material) -> Iterator[Path]:
    yield from material.folder.glob("*.py")
    yield from Path(judge.__path__[0]).glob("*.py")


def _imports(path: Path) -> set[str]:
    """The words of its import lines, since an unfinished file need not be valid Python."""
    lines = re.findall(r"^\s*(?:from|import) .*", path.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"\w+", " ".join(lines)))


def _calls(path: Path, name: str) -> list[Any]:
    """The first arguments of all calls of `name` in a master."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [ast.literal_eval(call.args[0]) for call in calls if getattr(call.func, "id", "") == name and call.args]


def _points(material: Material) -> int | None:
    """What the master says that a right answer is worth."""
    cells = percent_format.read(material.master.read_text(encoding="utf-8"))
    data = [cell.metadata.get("nbgrader", {}) for cell in cells]
    wanted = f"{material.exercise.cell}-check"
    return next((one.get("points") for one in data if one.get("grade_id") == wanted), None)
