"""`exercise new` and `exercise check`: for those who write exercises.

A new exercise is complete enough to be built, checked and judged before its author has written a line. A check reports
everything that is not right, in the order in which an author fixes it.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from time import monotonic
from typing import Annotated, Final, NamedTuple

import typer

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import plural
from gpipe_edu.course.building.build import masters
from gpipe_edu.course.building.places import ROOT
from gpipe_edu.judge.exercise import find_exercise, keys
from gpipe_edu.judge.findings import Finding
from gpipe_edu.judge.pool import Judges
from gpipe_edu.process import orphans

from . import texts, verdicts
from .material import PARTS, Entry, Material, Shortcoming, relative, require_clone


def new(
    key: Annotated[str, typer.Argument(metavar="EXERCISE", help="A new key, such as ex20/way-back.")],
) -> int:
    """Write a small exercise that works, to be made into another one: folder, master and bank."""
    with bad_arguments():
        written = write_new(key)
    for path in written:
        print(f"{relative(path)}: written")
    print(
        "It is a small exercise that works. Next:\n"
        "  gpipe-edu build                        builds its notebook, now and after each change\n"
        f"  {f'gpipe-edu exercise check {key}':<38} says what is left to do"
    )
    return 0


def check(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="EXERCISE", help="Such as ex20/way-back. Default: all.")
    ] = None,
) -> int:
    """Say what is not right with exercises, and how to mend it. Exit code 1 if anything is."""
    begun = monotonic()
    orphans.adopt()
    try:
        with bad_arguments():
            found = look_through(keys or (), _tell, _count)
    finally:
        orphans.end()
    looked_at = f"{plural(found.exercises, 'exercise')}, {plural(found.answers, 'answer')}"
    verdict = plural(len(found.problems), "problem") if found.problems else "all well"
    print(f"{looked_at}: {verdict} ({monotonic() - begun:.0f} s)")
    return int(bool(found.problems))


def _tell(words: str) -> None:
    print(words, flush=True)


def _count(judged: int, of: int) -> None:
    """All banks take minutes, so show the progress to a waiting person."""
    if sys.stderr.isatty():
        print(f"\r{judged} of {of} judged", end="" if judged < of else "\n", file=sys.stderr, flush=True)


_JOBS: Final = 2
"""Answers judged at once."""


class Checked(NamedTuple):
    """How much has been checked, the banks' answers included, and what is not right."""

    exercises: int
    answers: int
    problems: list[Shortcoming]


def look_through(wanted: Sequence[str], tell: Callable[[str], None], count: Callable[[int, int], None]) -> Checked:
    """Check the exercises `wanted`, or all. `tell` gets each problem, `count` how many answers are judged, of how many.

    Raises ValueError for a key that does not exist, FileNotFoundError outside a clone of the repository.
    """
    require_clone()
    problems: list[Shortcoming] = []

    def note(found: Iterator[Shortcoming]) -> bool:
        new = list(found)
        problems.extend(new)
        for problem in new:
            tell(str(problem))
        return bool(new)

    everything = [Material(key) for key in keys()]
    if [note(texts.readable(material)) for material in everything].count(True):
        return Checked(len(everything), 0, problems)
    chosen = [Material(find_exercise(key).key) for key in wanted] or everything
    banks: dict[Material, Sequence[Entry]] = {}
    for material in chosen:
        for look in (texts.unfinished, texts.sentences, texts.folder):
            note(look(material))
        if note(texts.loadable(material)):
            continue
        banks[material] = material.entries()
        for look in (texts.predictions, texts.master, texts.marking, texts.row):
            note(look(material))
        for ask in (texts.slips, texts.bank):
            note(ask(material, banks[material]))
    if not wanted:
        note(texts.shared_slips([entry for entries in banks.values() for entry in entries]))
    ready = [task for material, entries in banks.items() for task in verdicts.tasks(material, entries)]
    findings: dict[Material, list[Finding]] = {material: [] for material in banks}
    with Judges(_JOBS, trust=True) as judges:
        for judged, (task, outcome) in enumerate(judges.judge(ready), 1):
            count(judged, len(ready))
            note(task.name.problem(outcome))
            findings[task.name.material] += outcome.report.findings if outcome.report else ()
    for material, found in findings.items():
        note(verdicts.sentences(material, found))
    return Checked(len(chosen), sum(map(len, banks.values())), problems)


_KEY: Final = re.compile(r"ex\d\d/[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_new(key: str) -> list[Path]:
    """Write the folder, the master and the bank of the exercise `key`; returns the files written.

    Nothing is overwritten: raises ValueError for a key that is invalid or taken, before anything is written, and
    FileNotFoundError outside a clone of the repository.
    """
    require_clone()
    function = key[5:].replace("-", "_")
    if not _KEY.fullmatch(key) or keyword.iskeyword(function):
        raise ValueError(
            f"the exercise is {key!r}; it must be ex, two digits, a slash and a name in small letters, digits and "
            "hyphens that can name a function, such as ex20/way-back"
        )
    number, material = key[2:4], Material(key)
    notebook = f"exercise_{number}_{function}"
    taken = [path for path in masters() if path.stem.split("_")[1] == number]
    taken += [path for path in (material.folder, material.bank) if path.exists()]
    if taken:
        numbers = {path.stem.split("_")[1] for path in masters()}
        free = next(f"{n:02}" for n in range(1, 100) if f"{n:02}" not in numbers)
        raise ValueError(
            f"the exercise is {key!r}, and {relative(taken[0])} exists; take a free number, such as ex{free}. "
            "A further part of an exercise is written by hand: see CONTRIBUTING.md, Adding an exercise"
        )
    targets = {
        **{name: material.folder / name for name in PARTS},
        "master.py": ROOT / "solutions" / f"{notebook}.py",
        "bank.py": material.bank,
    }
    words = {"key": key, "cell": key.replace("/", "-"), "number": number, "function": function, "notebook": notebook}
    words["title"] = function.replace("_", " ")
    material.folder.mkdir()
    for name, path in targets.items():
        text = (files(__package__) / "template" / f"{name}.txt").read_text(encoding="utf-8")
        with path.open("x", encoding="utf-8") as file:
            file.write(Template(text).substitute(words))
    return list(targets.values())
