"""`nbgrader` and `gradescope`: our judge inside of other people's graders."""

from __future__ import annotations

from pathlib import Path

from gpipe_edu.grading import nbgrader_course
from gpipe_edu.grading.grade import tasks_of

from .common import bad_arguments


def nbgrader(course: Path, tasks: str) -> int:
    """Write a course for nbgrader, and say what comes next."""
    with bad_arguments():
        written = nbgrader_course.write(course, tasks_of(tasks))
    for one in written.sources:
        print(one)
    config = course / nbgrader_course.CONFIG
    print(f"{config.name}: {'left alone, for it was there already' if written.kept else 'written'}")
    first = written.sources[0].path.stem
    print(f"Next, in {course}, where nbgrader is installed: nbgrader generate_assignment {first}; release and collect,")
    print(f"then nbgrader autograde {first}, which runs no cell; then nbgrader export.")
    return 0
