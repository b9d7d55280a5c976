"""Everything that is not right with exercises, in the order in which an author fixes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from gpipe_edu.judge.exercise import find_exercise, keys
from gpipe_edu.judge.findings import Finding
from gpipe_edu.teaching.grading.judges import Judges

from . import texts, verdicts
from .material import Entry, Material, Problem, require_clone

_JOBS: Final = 2
"""Answers judged at once."""


class Checked(NamedTuple):
    """How much has been checked, the banks' answers included, and what is not right."""

    exercises: int
    answers: int
    problems: list[Problem]


def check(wanted: Sequence[str], tell: Callable[[str], None], count: Callable[[int, int], None]) -> Checked:
    """Check the exercises `wanted`, or all. `tell` gets each problem, `count` how many answers of how many are judged.

    Raises ValueError for a key that does not exist, FileNotFoundError outside a clone of the repository.
    """
    require_clone()
    problems: list[Problem] = []

    def note(found: Iterator[Problem]) -> bool:
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
            if outcome.report and outcome.report.finding:
                findings[task.name.material].append(outcome.report.finding)
    for material, found in findings.items():
        note(verdicts.sentences(material, found))
    return Checked(len(chosen), sum(map(len, banks.values())), problems)
