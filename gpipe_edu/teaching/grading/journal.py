"""What is kept from one run to the next: the reports of what has been judged, and the inputs that it was judged with.

A line per report, on disk before the next one is begun, so that after an interruption, or with late hand-ins, only what
is new is judged. A line truncated by a power cut is skipped.

Inputs are drawn once, so that nobody can guess them, and the same for everybody. The feedback pages name them, so
those who hand in late get others.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import gpipe_edu
from gpipe_edu.base.atomic_write import name_errors, write_whole
from gpipe_edu.judge.findings import Report
from gpipe_edu.judge.judging import unpack_report
from gpipe_edu.process import plain


class Question(NamedTuple):
    """One answer to be judged with one seed. judge: the version of the checks, so that new checks judge again."""

    key: str
    digest: str
    seed: int
    judge: str


class Journal:
    """Reports in the file `path`. Raises OSError where it can't be read or written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Question, Report] = {}
        if path.exists():
            for line in path.read_bytes().split(b"\n"):
                try:
                    entry = json.loads(line)
                    self._known[Question(*entry["question"])] = unpack(entry["report"])
                except (ValueError, TypeError, KeyError, AttributeError):
                    continue

    def get(self, question: Question) -> Report | None:
        """The report, if there is one."""
        return self._known.get(question)

    def add(self, question: Question, report: Report) -> None:
        """Store a report. Raises OSError."""
        entry = {"question": question, "report": json.loads(plain.encode(report))}
        with name_errors(self._path), self._path.open("ab") as file:
            if file.tell():
                file.write(b"\n")  # in front: the last line may be incomplete
            file.write(json.dumps(entry).encode())
            file.flush()
            os.fsync(file.fileno())
        self._known[question] = report


def unpack(data: Any) -> Report:
    """A report from the JSON in a journal."""
    return unpack_report(plain.decode(json.dumps(data).encode()))


@cache
def judge_version() -> str:
    """A version that changes with any line of the package, as a verdict may depend on it."""
    package, digest = Path(gpipe_edu.__file__).parent, hashlib.sha256()
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


_NAME: Final = "seeds.json"


class Seeds:
    """`count` seeds for a class, kept in the folder with its marks. Raises OSError; ValueError for a damaged file."""

    def __init__(self, out: Path, count: int) -> None:
        self._path, self._count = out / _NAME, count
        self._known: dict[str, list[int]] = {}
        if self._path.exists():
            try:
                found = json.loads(self._path.read_text(encoding="utf-8"))
                known = {"": found} if isinstance(found, list) else found
                self._known = {str(name): [int(seed) for seed in seeds] for name, seeds in known.items()}
            except (ValueError, TypeError, AttributeError):
                raise ValueError(
                    f"{self._path} is damaged; it has lists of numbers. Delete it, and everybody is judged anew"
                ) from None
        self.of("")  # before anything is judged, as it may not be possible to write them

    @staticmethod
    def give(out: Path, seeds: Sequence[int]) -> None:
        """Make these the seeds of the class with marks in `out`. Raises OSError."""
        write_whole(out / _NAME, json.dumps({"": list(seeds)}) + "\n")

    def of(self, student: str) -> tuple[int, ...]:
        """The seeds of a late student, or for "" of the class, drawn when first asked for. Raises OSError."""
        known = self._known.setdefault(student, [])
        if len(known) < self._count:
            known += [secrets.randbelow(10**6) for _ in range(self._count - len(known))]
            write_whole(self._path, json.dumps(self._known, ensure_ascii=False) + "\n")
        return tuple(known[: self._count])
