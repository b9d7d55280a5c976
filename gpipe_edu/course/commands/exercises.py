"""`build`, `progress`, `script` and `reset`: the exercises, from a terminal."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from gpipe_edu.base.terminal import bad_arguments
from gpipe_edu.base.words import program
from gpipe_edu.course import progress as how_far
from gpipe_edu.course import reset as start_anew
from gpipe_edu.course.building.build import build as build_all
from gpipe_edu.course.building.build import write_script
from gpipe_edu.course.building.glossary_links import define_terms
from gpipe_edu.course.building.places import ROOT

from .check import Key, find


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
