"""`nbgrader` and `gradescope`: our judge inside other graders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import plural
from gpipe_edu.teaching.grading.grade import tasks_of
from gpipe_edu.teaching.grading.marks import points
from gpipe_edu.teaching.platforms import gradescope_zip, nbgrader_course

from .grade import AllOrNothing, Seeds, Tasks


def nbgrader(
    course: Annotated[Path, typer.Argument(metavar="COURSE", help="The folder of nbgrader's course, new or not.")],
    tasks: Tasks = "",
) -> int:
    """Write a course for nbgrader: the exercises as its sources, and our judge in the place of its own."""
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


def gradescope(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The zip archive to write.")],
    tasks: Tasks = "",
    seeds: Seeds = 1,
    all_or_nothing: AllOrNothing = False,
) -> int:
    """Write an autograder for Gradescope: our judge, for its containers."""
    with bad_arguments():
        keys = tasks_of(tasks)
        count = gradescope_zip.write(path, keys, seeds, all_or_nothing)
    print(f"{path}: {plural(count, 'file')}, for {', '.join(keys)}; {sum(map(points, keys))} points.")
    print("Upload it as the autograder of a programming assignment, on an image with Python 3.11 or newer.")
    return 0
