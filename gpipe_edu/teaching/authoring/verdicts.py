"""Problems with an exercise that are found only by judging its bank, its solution and its stub."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gpipe_edu.course import submitted_notebook
from gpipe_edu.course.building.build import notebook_text
from gpipe_edu.course.cut_answer import Answer, cut_answer
from gpipe_edu.judge.findings import Finding, Report
from gpipe_edu.judge.pool import Outcome, Task
from gpipe_edu.process.packing import Packed, pack

from .material import Entry, Material, Shortcoming, relative

SEED: Final = 20181116
"""The seed of the inputs for all answers."""

_LONGEST: Final = 300
"""Characters of a slip's message."""

_SENTENCE: Final = re.compile(r"([A-Z`(]|[NM] |1F1B).*[.?`]", re.DOTALL)


class ToBeJudged(NamedTuple):
    """An answer to be judged, and the expected result. wanted: the slip, or the state of a report."""

    material: Material
    where: str
    wanted: str
    mend: str

    def problem(self, outcome: Outcome) -> Iterator[Shortcoming]:
        """The problem, if the result is a different one."""
        report = outcome.report
        if report is None:
            yield Shortcoming(self.where, f"it was not judged: {outcome.why}", "Try again, or mend its check.py")
        elif (came := explain(report)) != self.wanted:
            because = f" ({report.finding.because})" if report.finding else ""
            yield Shortcoming(self.where, f"it should get {self.wanted}, and gets {came}{because}", self.mend)


def explain(report: Report) -> str:
    """The slip that showed first in an answer; its state if none did."""
    return report.findings[0].slip if report.findings else report.state


def of_entry(material: Material, entry: Entry) -> ToBeJudged:
    """The expected result of an answer of the bank."""
    where = f"{relative(material.bank)} {entry.name}"
    look = f"python -m pytest tests/solutions/test_bank.py -k {entry.name} shows the whole report"
    if entry.slip:
        return ToBeJudged(material, where, entry.slip, f"Let examine try what shows it, or name another slip; {look}")
    return ToBeJudged(material, where, "passed", f"Mend check.py, or the answer; {look}")


def tasks(material: Material, entries: Iterable[Entry]) -> Iterator[Task]:
    """All answers of an exercise, for judges, each named by its expected result."""
    for entry in entries:
        yield _task(of_entry(material, entry), pack(entry.function))
    where, function = relative(material.master), material.exercise.function
    mend = f"Mend the solution between its markers, or check.py; python {where} shows the whole report"
    yield _task(ToBeJudged(material, f"{where} solution", "passed", mend), _solution(material).pack())
    mend = f"Put ### BEGIN SOLUTION and ### END SOLUTION around all of the body of {function}"
    yield _task(ToBeJudged(material, f"{where} stub", "unwritten", mend), _stub(material).pack())


def sentences(material: Material, findings: Iterable[Finding]) -> Iterator[Shortcoming]:
    """The messages for slips, with words filled in: whole sentences, not too long, none used for two slips.

    "endless" is left out: its sentence is shared, and may stand for a slip of its own.
    """
    where, first = relative(material.messages), dict[str, str]()
    for slip, because in sorted({(one.slip, one.because) for one in findings if one.slip != "endless"}):
        if (other := first.setdefault(because, slip)) != slip:
            yield Shortcoming(where, f"of {slip} is said what is said of {other}", "Say what is wrong about this one")
        if not _SENTENCE.fullmatch(because):
            yield Shortcoming(where, f"of {slip} is said no whole sentence: {because}", "Begin it and end it as one")
        if len(because) > _LONGEST:
            wrong = f"{len(because)} characters are said of {slip}"
            yield Shortcoming(where, wrong, f"Make it {_LONGEST} at most")


def _task(name: ToBeJudged, packed: Packed) -> Task:
    return Task(name, name.material.exercise, packed, SEED)


def _cells(material: Material, marked: bool) -> list[submitted_notebook.Cell]:
    """The code of its notebook; marked: with the solution."""
    cells = submitted_notebook.read(notebook_text(material.master, marked).encode())
    return [cell for cell in cells if cell.kind == "code"]


def _solution(material: Material) -> Answer:
    return cut_answer(material.exercise, _cells(material, marked=True))


def _stub(material: Material) -> Answer:
    """The stub with everything that the solution needs, as in a kernel before anything has been written."""
    solved, cells, texts = _solution(material), _cells(material, marked=False), {}
    for cell in cells:
        for node in ast.parse(cell.source).body:
            if getattr(node, "name", "") == solved.function:
                texts[cell.name, node.lineno] = ast.get_source_segment(cell.source, node) or ""
    parts = tuple((name, line, texts.get((name, line), text)) for name, line, text in solved.parts)
    return solved._replace(parts=parts, sources=tuple((cell.name, cell.source) for cell in cells))
