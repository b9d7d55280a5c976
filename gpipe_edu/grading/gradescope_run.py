"""What runs in Gradescope's container, for one hand-in: judge it, and write down what Gradescope shows.

Each hand-in has a container of its own, so there is nobody else's work to protect, only the marks: an answer runs in a
cage where the kernel has one, else as a user who can reach neither the judge nor the results; where neither can be had,
nothing is judged.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from gpipe_edu.course.exercise import find
from gpipe_edu.process import orphans

from .grade import Wish, grade
from .judges import Judges
from .marks import Mark, points
from .submissions import HandedIn, files_in
from .tables import put
from .told import as_text

_STUDENT = "student"


def main() -> None:
    """`python -m gpipe_edu.grading.gradescope_run /autograder`. No results, and an exit code, if nothing is known."""
    orphans.adopt()
    try:
        sys.exit(run(Path(sys.argv[1])))
    except (ValueError, OSError) as error:
        sys.exit(f"nothing was judged: {error}")
    finally:
        orphans.end()


def run(place: Path) -> int:
    """Judge `place`/submission by `place`/source/order.json; what comes out is in `place`/results/results.json."""
    order = json.loads((place / "source" / "order.json").read_text(encoding="utf-8"))
    results = place / "results"
    results.mkdir(exist_ok=True)
    os.chmod(results, 0o700)
    notes: list[str] = []
    handed_in = HandedIn("Gradescope's", {_STUDENT: list(files_in(place / "submission", notes))}, notes)
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_marks_") as out:
        (Path(out) / "seeds.json").write_text(json.dumps(order["seeds"]), encoding="utf-8")
        wish = Wish(tuple(order["tasks"]), len(order["seeds"]), 1, order["all_or_nothing"], trust=_needs_trust())
        row = grade(handed_in, Path(out), wish, print).marks[_STUDENT]
    late = [mark for mark in row.values() if mark.points is None]
    for mark in late:
        print(f"{mark.key} was not judged, so there are no results; run the autograder again: {mark.why}")
    if late:
        return 2
    put(results / "results.json", json.dumps(as_results(row, notes), indent=1) + "\n")
    return 0


def as_results(row: dict[str, Mark], notes: list[str]) -> dict[str, Any]:
    """Marks as Gradescope reads them."""
    tests = [
        {
            "name": f"{key}: {find(key).title}",
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


def _needs_trust() -> bool:
    """Whether there is no cage here. Raises ValueError where an answer would have the judge's own rights, too."""
    with Judges(1) as judges:
        if not judges.held().missing():
            return False
    with Judges(1, trust=True) as judges:
        if not judges.nobody:
            raise ValueError("there is no cage here, and answers can't run as nobody: results could be forged")
    return True


if __name__ == "__main__":
    main()
