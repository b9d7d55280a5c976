"""Exercises from their masters: notebooks without the solutions, rebuilt only where no work would be lost.

A learner's work can't be recovered, so a notebook that differs in any way from what was built is left alone. To detect
this, each carries the digest of its own cells.

Glossary terms explain themselves where they are used: a link to one has its definition as its title. That is the first
sentence of the glossary's entry. `build` copies it into lessons and exercises, so it is maintained in one place.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import percent_format
from .places import FRESH, ROOT, clone, workplace

_OURS: Final = "gpipe_edu"


class Built(NamedTuple):
    """What became of one exercise. what: "written", "same", "kept" or "beside"."""

    path: Path
    what: str

    def __str__(self) -> str:
        words = {
            "written": "written",
            "same": "up to date",
            "kept": "left alone, for you have worked in it; --beside writes the new version beside it",
            "beside": "the new version, written beside the one you have worked in",
        }
        return f"{self.path.name}: {words[self.what]}"


def masters(root: Path = ROOT) -> list[Path]:
    """The masters in reading order. Raises FileNotFoundError where there are none."""
    found = sorted((root / "solutions").glob("exercise_*.py"))
    if not found:
        raise FileNotFoundError(
            "the folder solutions/ is not here: exercises are built in the course's repository, not from the package"
        )
    return found


def build(root: Path = ROOT, beside: bool = False) -> list[Built]:
    """Build every exercise; `beside` writes the new version of a changed one under another name."""
    (clone(root) / "exercises").mkdir(exist_ok=True)
    return [build_one(master, root / "exercises", beside) for master in masters(root)]


def build_one(master: Path, folder: Path, beside: bool = False, marked: bool = False) -> Built:
    """Build the exercise of one master into `folder`; marked: with its solutions, between the markers."""
    target = folder / f"{master.stem}.ipynb"
    text = notebook_text(master, marked)
    if not target.exists():
        target.write_text(text, encoding="utf-8")
        return Built(target, "written")
    if target.read_text(encoding="utf-8") == text:
        return Built(target, "same")
    if untouched(target):
        target.write_text(text, encoding="utf-8")
        return Built(target, "written")
    if not beside:
        return Built(target, "kept")
    other = free_name(target, "new")
    other.write_text(text, encoding="utf-8")
    return Built(other, "beside")


def exercise(stem: str, root: Path = ROOT) -> Path:
    """The notebook of an exercise that a learner works in; it may have been deleted. Raises as `workplace`."""
    return workplace(root) / "exercises" / f"{stem}.ipynb"


def reset(stem: str, root: Path = ROOT) -> tuple[Path, Path | None]:
    """A fresh notebook for the exercise; what was there is renamed first. Returns the notebook and the copy, if any.

    Raises ValueError for an exercise that does not exist, FileNotFoundError where nothing is left to make it from, or
    where there is no copy of the course.
    """
    target, copy = exercise(stem, root), None
    text = fresh(stem, root)
    target.parent.mkdir(exist_ok=True)
    if target.exists() and not untouched(target):
        copy = set_aside(target)
    target.write_text(text, encoding="utf-8")
    return target, copy


def set_aside(path: Path) -> Path:
    """Rename a file to one with the date in its name, which is returned."""
    return path.rename(free_name(path, f"{datetime.now():%Y-%m-%d_%H%M%S}"))


def fresh(stem: str, root: Path = ROOT) -> str:
    """The released notebook of an exercise: built from its master or, where there are no masters, an untouched copy.

    Raises as `reset` does.
    """
    if (root / "solutions").is_dir():
        return notebook_text(_master(stem, root))
    for folder in (FRESH, "exercises"):
        path = root / folder / f"{stem}.ipynb"
        if path.is_file() and untouched(path):
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(
        f"no fresh {stem}.ipynb is left here: get it again from where you had the course, under another name"
    )


def notebook_text(master: Path, marked: bool = False) -> str:
    """The released notebook as JSON, the same text for the same master; marked: the version with solutions.

    Raises ValueError for a faulty master.
    """
    cells = []
    known = definitions(master.parents[1] / "docs" / "glossary.md")
    for number, cell in enumerate(percent_format.read(master.read_text(encoding="utf-8"))):
        source = cell.source if marked else percent_format.remove_solution(cell.source)
        if cell.kind == "markdown":
            source = add_definitions(source, known)
        entry: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{number:02}", "metadata": cell.metadata}
        if cell.kind == "code":
            entry |= {"execution_count": None, "outputs": []}
        cells.append(entry | {"source": source.splitlines(keepends=True)})
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        _OURS: {"digest": _digest(cells)},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def write_script(stem: str, folder: Path, root: Path = ROOT) -> Path:
    """Write an exercise as a Python file with `# %%` cells into `folder`, for editors that run these.

    Raises ValueError for an exercise that does not exist, FileExistsError rather than replace a file.
    """
    path = folder / f"{stem}.py"
    if path.exists():
        raise FileExistsError(f"{path} is there already, and may have your work in it: rename it, or name a --folder")
    folder.mkdir(parents=True, exist_ok=True)
    text = percent_format.remove_solution(_master(stem, root).read_text(encoding="utf-8"))
    path.write_text(text + "\n", encoding="utf-8")
    return path


def _master(stem: str, root: Path) -> Path:
    found = {path.stem: path for path in masters(root)}
    if stem not in found:
        raise ValueError(f"there is no exercise {stem!r}; there are {', '.join(found)}")
    return found[stem]


def untouched(path: Path) -> bool:
    """Whether the notebook is exactly as built: no other cell, no output, no trace of work."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = notebook["cells"]
        if any(cell.get("outputs") or cell.get("attachments") for cell in cells):
            return False
        return bool(notebook["metadata"][_OURS]["digest"] == _digest(cells))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def free_name(path: Path, word: str) -> Path:
    """An unused name beside `path`: "exercise.new.ipynb", "exercise.new-2.ipynb", ..."""
    number, found = 1, path.with_suffix(f".{word}{path.suffix}")
    while found.exists():
        number += 1
        found = path.with_suffix(f".{word}-{number}{path.suffix}")
    return found


def digest_of_work(path: Path) -> str:
    """Equal for files with the same work in them: what running or merely saving a notebook changes does not count."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        # Whoever runs the last cell gets an empty one below it.
        return _digest([cell for cell in cells if "".join(cell["source"]).strip()])
    except (ValueError, KeyError, TypeError):  # not a notebook
        return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(cells: list[dict[str, Any]]) -> str:
    parts = [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


_LINK: Final = re.compile(r'\]\((?P<target>[^)\s]*glossary\.md#(?P<anchor>[\w-]+))(?: "[^"]*")?\)')
_MARKED: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def definitions(glossary: Path) -> dict[str, str]:
    """The first sentence of each entry, as plain words, by the entry's anchor; {} where there is no glossary."""
    found: dict[str, str] = {}
    if not glossary.is_file():
        return found
    for entry in re.split(r"^## ", glossary.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        term, _, text = entry.partition("\n")
        words = " ".join(_MARKED.sub(r"\1", text.strip().partition("\n\n")[0]).split())
        sentence = re.split(r"(?<=[.?]) (?=[A-Z0-9\"(])", words)[0]
        found[anchor(term)] = re.sub(r"[*`]", "", sentence).replace('"', "'")
    return found


def anchor(heading: str) -> str:
    """The anchor that code hosts give a heading: lower case, no punctuation, - for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def add_definitions(text: str, known: Mapping[str, str]) -> str:
    """The Markdown with the current definitions as the titles of its links to the glossary."""
    return _LINK.sub(lambda link: "](" + link["target"] + _title(known.get(link["anchor"], "")) + ")", text)


def define_terms(root: Path) -> list[Path]:
    """Write the current definitions into the lessons; returns the lessons that changed."""
    known = definitions(root / "docs" / "glossary.md")
    changed = []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = add_definitions("".join(cell["source"]), known).splitlines(keepends=True)
        new = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def _title(words: str) -> str:
    return f' "{words}"' if words else ""
