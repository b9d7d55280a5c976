"""The course for students, without its solutions: an archive in which everything else works as it does here.

Solutions are public all the same; this only keeps them out of the way. `reset` finds a fresh notebook of each exercise
in a separate folder.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from gpipe_edu.course.building.places import FRESH, ROOT, clone
from gpipe_edu.course.building.workspace import course_files

_FILES: Final = ("README.md", "LICENSE", "Makefile", "pyproject.toml", "requirements.txt")
_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def write(path: Path, root: Path = ROOT) -> int:
    """Write the archive; returns how many files are in it. Raises FileNotFoundError outside of a clone."""
    chosen = sorted(names(clone(root)), key=str)
    known = {str(name) for name in chosen} | {str(parent) for name in chosen for parent in name.parents}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in chosen:
            data = (root / name).read_bytes()
            if name.suffix == ".md":
                data = remove_dead_links(data.decode(), name, known).encode()
            archive.writestr(entry(f"gpipe_edu_course/{name}"), data)
            if name.parts[0] == "exercises":
                archive.writestr(entry(f"gpipe_edu_course/{FRESH}/{name.name}"), data)
    return len(chosen)


def remove_dead_links(text: str, name: PurePosixPath, known: set[str]) -> str:
    """The page, with links to what is not in the kit replaced by their text."""

    def replace(link: re.Match[str]) -> str:
        if re.match(r"\w+:", link[2]):
            return link[0]
        target: list[str] = list(name.parent.parts)
        for part in PurePosixPath(link[2]).parts:
            if part == "..":
                target[-1:] = []
            elif part != ".":
                target.append(part)
        return link[0] if "/".join(target) in known else f"{link[1]} (not in this copy)"

    return _LINK.sub(replace, text)


def names(root: Path) -> Iterator[PurePosixPath]:
    """The files of the course that students get, relative to its folder."""
    yield from (PurePosixPath(name) for name in _FILES if (root / name).is_file())
    yield from (PurePosixPath(name) for path, name in course_files(root) if not path.is_symlink())
    for path in (root / "gpipe_edu").rglob("*"):
        short = PurePosixPath(path.relative_to(root).as_posix())
        hidden = any(part.startswith((".", "__pycache__")) for part in short.parts)
        if path.is_file() and not path.is_symlink() and not hidden and path.suffix != ".pyc":
            yield short


def entry(name: str, executable: bool = False) -> zipfile.ZipInfo:
    """An entry without a date, so that the same course makes the same archive."""
    made = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    made.compress_type, made.external_attr = zipfile.ZIP_DEFLATED, (0o755 if executable else 0o644) << 16
    return made
