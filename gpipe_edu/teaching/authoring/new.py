"""A new exercise, complete enough to be built, checked and judged before its author has written a line."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from gpipe_edu.course.building.build import masters
from gpipe_edu.course.building.places import ROOT

from .material import PARTS, Material, relative, require_clone

_KEY: Final = re.compile(r"ex\d\d/[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new(key: str) -> list[Path]:
    """Write the folder, the master and the bank of the exercise `key`; returns the files written.

    Nothing is overwritten: raises ValueError for a key that is invalid or taken, before anything is written, and
    FileNotFoundError outside a clone of the repository.
    """
    require_clone()
    function = key[5:].replace("-", "_")
    if not _KEY.fullmatch(key) or keyword.iskeyword(function):
        raise ValueError(
            f"the exercise is {key!r}; it must be ex, two digits, a slash and a name in small letters, digits and "
            "hyphens that can name a function, such as ex17/way-back"
        )
    number, material = key[2:4], Material(key)
    notebook = f"exercise_{number}_{function}"
    taken = [path for path in masters() if path.stem.split("_")[1] == number]
    taken += [path for path in (material.folder, material.bank) if path.exists()]
    if taken:
        numbers = {path.stem.split("_")[1] for path in masters()}
        free = next(f"{n:02}" for n in range(1, 100) if f"{n:02}" not in numbers)
        raise ValueError(
            f"the exercise is {key!r}, and {relative(taken[0])} exists; take a free number, such as ex{free}. "
            "A further part of an exercise is written by hand: see CONTRIBUTING.md, Adding an exercise"
        )
    targets = {
        **{name: material.folder / name for name in PARTS},
        "master.py": ROOT / "solutions" / f"{notebook}.py",
        "bank.py": material.bank,
    }
    words = {"key": key, "cell": key.replace("/", "-"), "number": number, "function": function, "notebook": notebook}
    words["title"] = function.replace("_", " ")
    material.folder.mkdir()
    for name, path in targets.items():
        text = (files(__package__) / "template" / f"{name}.txt").read_text(encoding="utf-8")
        with path.open("x", encoding="utf-8") as file:
            file.write(Template(text).substitute(words))
    return list(targets.values())
