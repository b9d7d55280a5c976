"""What runs in Gradescope's container for one hand-in: judge it, and write what Gradescope shows.

Each hand-in has a container of its own, so there is no other student's work to protect, only the marks: an answer runs
in a sandbox where the container allows one, otherwise as a user who can reach neither the judge nor the results; where
neither is possible, nothing is judged.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from gpipe_edu.base.atomic_write import escape_on_terminals, write_whole
from gpipe_edu.judge import worker
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.pool import HERE, Judges, Workplace
from gpipe_edu.process import orphans
from gpipe_edu.process.child import command
from gpipe_edu.process.enclosure import SINGLE
from gpipe_edu.teaching.grading.grade import Wish, grade
from gpipe_edu.teaching.grading.journal import Seeds
from gpipe_edu.teaching.grading.marks import Mark, as_text, points
from gpipe_edu.teaching.grading.submissions import HandedIn, books_in

_STUDENT = "student"


def main() -> None:
    """`python -m gpipe_edu.teaching.platforms.gradescope_run FOLDER`. Exits with an error if there is no result."""
    escape_on_terminals()
    orphans.adopt()
    try:
        sys.exit(run(Path(sys.argv[1])))
    except (ValueError, OSError) as error:
        sys.exit(f"nothing was judged: {error}")
    finally:
        orphans.end()


def run(place: Path) -> int:
    """Judge `place`/submission by `place`/source/order.json; the results go to `place`/results/results.json."""
    order = json.loads((place / "source" / "order.json").read_text(encoding="utf-8"))
    results = place / "results"
    results.mkdir(exist_ok=True)
    os.chmod(results, 0o700)
    if not (place / "submission").is_dir():
        raise ValueError(f"there is no folder {place / 'submission'}")
    notes: list[str] = []
    handed_in = HandedIn("Gradescope's", {_STUDENT: list(books_in(place / "submission", notes))}, notes)
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_marks_") as out:
        Seeds.give(Path(out), order["seeds"])
        keys = tuple(order["tasks"])
        where, told = _workplace()
        print(told)
        wish = Wish(keys, len(order["seeds"]), 1, order["all_or_nothing"], place=where, stalled=inf)
        row = grade(handed_in, Path(out), wish, lambda words: None).marks[_STUDENT]
    late = [mark for mark in row.values() if mark.points is None]
    for mark in late:
        print(f"{mark.key} was not judged, so there are no results; run the autograder again: {mark.why}")
    if late:
        return 2
    write_whole(results / "results.json", json.dumps(as_results(row, notes), indent=1) + "\n")
    return 0


def as_results(row: dict[str, Mark], notes: list[str]) -> dict[str, Any]:
    """Marks as Gradescope reads them."""
    tests = [
        {
            "name": f"{key}: {find_exercise(key).title}",
            "score": mark.points,
            "max_score": points(key),
            "status": "passed" if mark.state == "passed" else "failed",
            "output": f"{mark.state}\n{as_text(mark)}",
            "output_format": "text",
            "visibility": "visible",
        }
        for key, mark in row.items()
    ]
    return {"output": "\n".join(notes), "visibility": "visible", "stdout_visibility": "hidden", "tests": tests}


def _workplace() -> tuple[Workplace, str]:
    """Where answers can reach neither judge nor marks; and a sentence that says so."""
    with suppress(ValueError), Judges(1) as judges:
        held = judges.probe()
        if not HERE.enclosure.missing(held):
            return HERE, f"Answers run in a sandbox. Shut to them: {held}."
    place = Workplace(SINGLE, tuple(command(worker.__name__)), "in this container")
    return place, "Answers run as the user nobody, who can't reach the marks."


if __name__ == "__main__":
    main()
