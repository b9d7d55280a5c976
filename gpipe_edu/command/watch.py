"""`watch`: an exercise is checked again at each save of its notebook."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from gpipe_edu.course import NotYet, check
from gpipe_edu.course.building import build
from gpipe_edu.course.notebook_reader import functions
from gpipe_edu.exercises import Exercise, exercises

from .common import bad_arguments

_EVERY = 0.5
"""Seconds between two looks at the file."""


def watch(key: str, path: Path | None) -> int:
    """Check what `key` names at each save, until Ctrl-C. Returns 0."""
    with bad_arguments():
        wanted = find(key)
        notebook = path or build.exercise(wanted[0].notebook)
        if not notebook.is_file():
            raise ValueError(f"{notebook} does not exist; --notebook names another one")
    print(f"Watching {notebook}. Save it, and it is checked; Ctrl-C ends this.")
    for _ in saves(notebook):
        look(wanted, notebook)
    return 0


def find(key: str) -> list[Exercise]:
    """The exercises of "ex07", or the one of "ex07/1f1b". Raises ValueError for others."""
    found = [one for one in exercises().values() if one.key == key or one.key.partition("/")[0] == key]
    if not found:
        raise ValueError(f"there is no exercise {key!r}; there are {', '.join(exercises())}")
    return found


def look(wanted: list[Exercise], notebook: Path) -> None:
    """Check each of the functions once, and print what was found."""
    print(f"\n--- {time.strftime('%H:%M:%S')} ---")
    try:
        typed = functions(notebook)
    except Exception as error:  # a cell that is half written is what a save finds most often
        print(f"{type(error).__name__}: {error}")
        return
    for one in wanted:
        if one.function not in typed:
            print(f"{one.key}: there is no function {one.function} in {notebook.name}.")
            continue
        try:
            check(one.key, typed[one.function])
        except NotYet:
            continue  # what is wrong has been printed
        except (NotImplementedError, TypeError, ValueError) as error:
            print(error)


def saves(path: Path) -> Iterator[None]:
    """Comes back at once, and then each time that the file has changed."""
    seen = None
    while True:
        now = (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else seen
        if now != seen:
            seen = now
            yield
        time.sleep(_EVERY)
