"""Exercises from a terminal: `check`, `watch`, `hint` and `solution`, with an editor beside it; `build`, `progress`,
`script` and `reset`.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import program
from gpipe_edu.course import how_to_ask, tries_and_hints
from gpipe_edu.course import progress as how_far
from gpipe_edu.course import reset as start_anew
from gpipe_edu.course import solution as show_solution
from gpipe_edu.course.building import places
from gpipe_edu.course.building.build import build as build_all
from gpipe_edu.course.building.build import define_terms, write_script
from gpipe_edu.course.building.build import exercise as exercise_notebook
from gpipe_edu.course.building.places import ROOT
from gpipe_edu.course.check import NotYet, judge_and_show
from gpipe_edu.course.cut_answer import cut_answer
from gpipe_edu.course.submitted_notebook import Refused, of
from gpipe_edu.course.waiting import Waiting
from gpipe_edu.judge.case import Tell
from gpipe_edu.judge.exercise import Exercise, all_exercises, parts_of

_EVERY = 0.5
"""Seconds between looks at the file."""

_NOTHING = {
    "missing": "there is no function {0} in {1}",
    "unwritten": "{0} is not written yet",
    "broken": "the cell of {0} is no Python",
}
"""Why there is nothing to check."""

Key = Annotated[str, typer.Argument(metavar="EXERCISE", help="Such as ex07, or ex02/clock for one part of it.")]
Notebook = Annotated[
    Path | None,
    typer.Option(help="Its notebook, or Python file. Default: the one in this folder, or in your copy of the course."),
]


def check(
    key: Key,
    notebook: Notebook = None,
    seed: Annotated[int | None, typer.Option(help="That of an earlier check, for the same inputs.")] = None,
) -> int:
    """Check what stands in the notebook of an exercise; exit code 1 if something is not right yet."""
    with bad_arguments():
        wanted = find(key)
        path = notebook_of(wanted[0], notebook, written=True)
    print(f"Checking {path}.")
    return 0 if look(wanted, path, seed) else 1


def watch(key: Key, notebook: Notebook = None) -> int:
    """Check an exercise again at each save of its notebook."""
    with bad_arguments():
        wanted = find(key)
        path = notebook_of(wanted[0], notebook)
    print(f"Watching {path}. Save it, and it is checked; Ctrl-C ends this.")
    for _ in saves(path):
        print(f"\n--- {time.strftime('%H:%M:%S')} ---")
        look(wanted, path)
    return 0


def hint(key: Key) -> int:
    """Show the next hint, if a try has earned it, and all earlier ones."""
    with bad_arguments(), how_to_ask.from_a_terminal():
        for one in find(key):
            tries_and_hints.hint(one.key)
    return 0


def solution(
    key: Key,
    give_up: Annotated[bool, typer.Option("--give-up", help="Before the exercise is solved, too.")] = False,
) -> int:
    """Show one way to write an exercise that is solved."""
    with bad_arguments(), how_to_ask.from_a_terminal():
        for one in find(key):
            show_solution(one.key, give_up=give_up)
    return 0


def find(key: str) -> list[Exercise]:
    """The exercises of "ex07", or the one of "ex07/1f1b". Raises ValueError for others."""
    found = parts_of(key) or [one for one in all_exercises().values() if one.key == key]
    if not found:
        raise ValueError(f"there is no exercise {key!r}; there are {', '.join(all_exercises())}")
    return found


def notebook_of(exercise: Exercise, given: Path | None = None, *, written: bool = False) -> Path:
    """The file to look into: `given`, or the one in the working directory or in the copy of the course. Of a notebook
    and a Python file with the same name, the one that was saved last.

    written: files with an answer come first, since `script` puts a file without one beside a notebook.
    Raises ValueError where there is none.
    """
    files = [given] if given else _files_of(exercise)
    try:
        if not given:
            files.append(exercise_notebook(exercise.notebook))
    except FileNotFoundError as error:
        if not files:
            raise ValueError(f"{error}; --notebook names a file elsewhere") from error
    answered = (path for path in files if path.is_file() and written and _has_answer(exercise, path))
    found = next(answered, files[0])
    if not found.is_file():
        raise ValueError(f"{found} does not exist; --notebook names another one")
    return found


def _files_of(exercise: Exercise) -> list[Path]:
    """The exercise's files here and in exercises/, last saved first; none of the course's own."""
    found: list[Path] = []
    for folder in (Path(), Path("exercises")):
        files = [path for ending in ("ipynb", "py") if (path := folder / f"{exercise.notebook}.{ending}").is_file()]
        if folder.resolve() != places.ROOT / "exercises":
            found += sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
    return found


def _has_answer(exercise: Exercise, path: Path) -> bool:
    """Whether one of its functions is written there."""
    try:
        cells = of(path)
    except Refused:
        return False
    return any(cut_answer(one, cells).state == "cut" for one in parts_of(exercise.key.partition("/")[0]))


def look(wanted: list[Exercise], notebook: Path, seed: int | None = None) -> bool:
    """Check each of the functions once, cut out as in `grade`, and print what was found; returns whether all passed."""
    try:
        cells = of(notebook)
    except Refused as error:
        print(f"{error}. If it is being written just now, it is looked at again at the next save.")
        return False
    passed = 0
    for one in wanted:
        answer = cut_answer(one, cells)
        for note in answer.notes:
            print(note)
        if answer.state != "cut":
            print(f"{one.key}: {_NOTHING[answer.state].format(one.function, notebook.name)}.")
            continue
        try:
            with how_to_ask.from_a_terminal(), _telling(one) as tell:
                judge_and_show(one, answer.pack(), seed, tell)
            passed += 1
        except NotYet:
            continue  # the report has been printed
        except (NotImplementedError, RuntimeError) as error:
            print(error)
    return passed == len(wanted)


class _Line(NamedTuple):
    """Written anew whenever the terminal's line is."""

    waiting: Waiting

    def __rich__(self) -> Text:
        return Text(str(self.waiting))


@contextmanager
def _telling(exercise: Exercise) -> Iterator[Tell]:
    """Say what is waited for, on one line that is gone when the report comes."""
    console = Console(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        print(f"{exercise.key}: being judged, about {exercise.cases} cases.")
        yield lambda number, call: None
        return
    waiting = Waiting(exercise)
    with console.status(_Line(waiting)) as status:

        def tell(number: int, call: str) -> None:
            if number == 0:  # the verdict is there
                status.stop()
            waiting.tell(number, call)

        yield tell


def saves(path: Path) -> Iterator[None]:
    """Yields at once, and then each time the file has changed."""
    seen = None
    while True:
        now = (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else seen
        if now != seen:
            seen = now
            yield
        time.sleep(_EVERY)


def build(
    beside: Annotated[
        bool, typer.Option("--beside", help="Write new versions beside notebooks you worked in.")
    ] = False,
) -> int:
    """Build exercises/ from solutions/. A notebook somebody has worked in is left alone; exit code 1 then."""
    with bad_arguments():
        built = build_all(beside=beside)
        defined = define_terms(ROOT)
    for one in built:
        print(one)
    for path in defined:
        print(f"{path.name}: definitions from the glossary written")
    return int(any(one.what == "kept" for one in built))


def progress() -> int:
    """Say how far you are in lessons, puzzles and exercises, and where to go on."""
    print(how_far())
    return 0


def script(
    key: Key,
    folder: Annotated[Path, typer.Option(help="Where to write it.")] = Path(),
) -> int:
    """Write an exercise as a Python file with `# %%` cells, for editors such as VS Code; `watch` checks it, too."""
    with bad_arguments():
        path = write_script(find(key)[0].notebook, folder)
    elsewhere = "" if path.parent == Path() else f" --notebook {shlex.quote(str(path))}"
    print(f"{path} is written. Beside it: {program()} watch {key.partition('/')[0]}{elsewhere}")
    return 0


def reset(key: Key) -> int:
    """Start an exercise anew, its notebook with all that is in it; what was written is kept in a dated copy."""
    with bad_arguments():
        start_anew(find(key)[0].key)
    return 0
