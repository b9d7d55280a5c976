"""What pages fetch of Python and its packages: the lab's archives without what their cells hardly ever import.

A page's Python is fetched while somebody waits for a first result, and two thirds of the wait are bytes. What is taken
out is packed separately (`live/lazy_modules.py`), except files that no Python reads.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path

from .fetched import LOCK, STANDARD_LIBRARY
from .live.lazy_modules import ARCHIVES, archive_of

SLIM_LOCK, SLIM_LIBRARY = "pages-lock.json", "pages_stdlib.zip"
_SLIM = ("numpy", "gpipe-edu")
_NEVER_READ = re.compile(r".*\.(pyi|pxd|h|a|c)$|.*-info/(licenses/.*|RECORD)$|solutions/__pycache__/.*")
"""For compilers and type checkers. The licences stay in the lab's archive, which is beside it."""
_COMPILED = re.compile(r"(.*)__pycache__/(\w+)\.cpython-\d+\.pyc")


_Files = list[tuple[zipfile.ZipInfo, bytes]]


def write(folder: Path) -> None:
    """Write a standard library, wheels and a lock for pages beside the lab's files in `folder`, where Pyodide is."""
    lock = json.loads((folder / LOCK).read_text(encoding="utf-8"))
    beside: dict[str, _Files] = {name: [] for name in ARCHIVES}
    _write(folder / SLIM_LIBRARY, _kept(folder / STANDARD_LIBRARY, beside))
    for name in _SLIM:
        package = lock["packages"][name]
        whole = folder / package["file_name"]
        label, version, tags = package["file_name"].split("-", 2)
        package["file_name"] = f"{label}-{version}-0pages-{tags}"  # a wheel of the same release, by its build number
        _write(folder / package["file_name"], _kept(whole, beside))
        package["sha256"] = hashlib.sha256((folder / package["file_name"]).read_bytes()).hexdigest()
    for name, files in beside.items():
        _write(folder / name, files)
    (folder / SLIM_LOCK).write_text(json.dumps(lock, indent=1), encoding="utf-8")


def _kept(archive: Path, beside: dict[str, _Files]) -> _Files:
    """What pages fetch from an archive at once; the rest is added to `beside`."""
    kept: _Files = []
    with zipfile.ZipFile(archive) as files:
        entries = [entry for entry in files.infolist() if not _NEVER_READ.match(entry.filename)]
        # Sources beside their compiled modules would be fetched only for tracebacks.
        sources = {found[1] + found[2] + ".py" for entry in entries if (found := _COMPILED.fullmatch(entry.filename))}
        for entry in entries:
            if entry.filename in sources:
                continue
            entry.filename = _COMPILED.sub(r"\1\2.pyc", entry.filename)  # where Python finds it without its source
            place = archive_of(module_of(entry.filename))
            (beside[place] if place else kept).append((entry, files.read(entry)))
    return kept


def module_of(file: str) -> str:
    """The module that a file in an archive belongs to, for data the package: numpy/ma/core.pyc is numpy.ma.core."""
    return re.sub(r"\.pyc?$", "", file).replace("/", ".")


def _write(path: Path, files: _Files) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for entry, content in files:
            made.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
