"""`watch`: checks an exercise again at each save of its notebook."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.course.building import build
from gpipe_edu.course.check import NotYet, judge_and_show
from gpipe_edu.exercises import Exercise, all_exercises
from gpipe_edu.grading.cut import cut
from gpipe_edu.grading.submitted_notebook import Refused, of

from .common import bad_arguments

_EVERY = 0.5
"""Seconds between two checks of the file."""

_NOTHING = {
    "missing": "there is no function {0} in {1}",
    "unwritten": "{0} is not written yet",
    "broken": "the cell of {0} is no Python",
}
"""Why there is nothing to check."""


def watch(
    key: Annotated[str, typer.Argument(metavar="EXERCISE", help="Such as ex07, or ex02/clock for one part of it.")],
    notebook: Annotated[Path | None, typer.Option(help="Its notebook, if it lies elsewhere.")] = None,
) -> int:
    """Check an exercise again at each save of its notebook."""
    with bad_arguments():
        wanted = find(key)
        notebook = notebook or build.exercise(wanted[0].notebook)
        if not notebook.is_file():
            raise ValueError(f"{notebook} does not exist; --notebook names another one")
    print(f"Watching {notebook}. Save it, and it is checked; Ctrl-C ends this.")
    for _ in saves(notebook):
        look(wanted, notebook)
    return 0


def find(key: str) -> list[Exercise]:
    """The exercises of "ex07", or the one of "ex07/1f1b". Raises ValueError for others."""
    found = [one for one in all_exercises().values() if one.key == key or one.key.partition("/")[0] == key]
    if not found:
        raise ValueError(f"there is no exercise {key!r}; there are {', '.join(all_exercises())}")
    return found


def look(wanted: list[Exercise], notebook: Path) -> None:
    """Check each of the functions once, cut out as in `grade`, and print the result."""
    print(f"\n--- {time.strftime('%H:%M:%S')} ---")
    try:
        cells = of(notebook)
    except Refused as error:
        print(f"{error}. If it is being written just now, it is looked at again at the next save.")
        return
    for one in wanted:
        answer = cut(one, cells)
        for note in answer.notes:
            print(note)
        if answer.state != "cut":
            print(f"{one.key}: {_NOTHING[answer.state].format(one.function, notebook.name)}.")
            continue
        try:
            judge_and_show(one, answer.pack())
        except NotYet:
            continue  # the report has been printed
        except (NotImplementedError, RuntimeError) as error:
            print(error)


def saves(path: Path) -> Iterator[None]:
    """Yields at once, and then each time the file has changed."""
    seen = None
    while True:
        now = (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else seen
        if now != seen:
            seen = now
            yield
        time.sleep(_EVERY)
