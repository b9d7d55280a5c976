"""Which of the course's requirements this machine meets, for the first notebook and for `python -m gpipe_edu
environment`, whose table `commands/set_up.py` prints.

Nothing is imported, because importing torch takes seconds and a broken package must not break the check.
"""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

from packaging.version import InvalidVersion, Version

_PACKAGES: Final = [
    # (name, oldest that works, required, purpose); pyproject.toml states the same ranges, and a test compares them.
    ("numpy", "1.26", True, "the reference engine"),
    ("threadpoolctl", "3.5", True, "the reference engine"),
    ("rich", "13.8", True, "the command line"),
    ("typer", "0.29", True, "the command line"),
    ("cloudpickle", "3.1", True, "exercises"),
    ("filelock", "4", True, "your answers and results"),
    ("packaging", "24", True, "this check"),
    ("psutil", "7", True, "exercises"),
    ("tree-sitter", "0.25", True, "launch scripts"),
    ("tree-sitter-bash", "0.25", True, "launch scripts"),
    ("matplotlib", "3.10", True, "pictures"),
    ("jupyterlab", "4.2", True, "notebooks"),
    ("ipykernel", "6.29", True, "notebooks"),
    ("ipywidgets", "8.1", True, "interactive charts"),
    ("anywidget", "0.9", True, "interactive charts"),
    ("traitlets", "5.14", True, "interactive charts"),
    ("markdown-it-py", "3", True, "questions"),
    ("torch", "2.11", False, "the PyTorch engine"),
]


_TRIED_BELOW: Final = {"cloudpickle": "3.1.3", "torch": "2.14"}
"""Packages whose private names we use; a newer release may work, but pip should not take it."""

_NOT_IN_A_BROWSER: Final = {
    *("rich", "typer", "filelock", "psutil", "tree-sitter", "tree-sitter-bash", "jupyterlab", "ipykernel", "torch")
}
"""What Jupyter in a browser does without: a command line, locks, servers, and PyTorch, which does not run there."""


class Requirement(NamedTuple):
    """One thing the course uses: its name, the version found ("" if none), and how to get it."""

    name: str
    found: str
    ok: bool
    required: bool
    purpose: str
    cure: str


def look() -> list[Requirement]:
    """Every requirement of the course and whether this machine, or this browser, meets it. Takes milliseconds."""
    python = ".".join(map(str, sys.version_info[:3]))
    requirements = [
        Requirement("Python >= 3.11", python, sys.version_info >= (3, 11), True, "everything", "install Python 3.11")
    ]
    browser = sys.platform == "emscripten"
    for name, oldest, required, purpose in _PACKAGES:
        if browser and name in _NOT_IN_A_BROWSER:
            continue
        found = _find_version(name)
        ok = _new_enough(found, oldest)
        below = f",<{_TRIED_BELOW[name]}" if name in _TRIED_BELOW else ""
        cure = f'python -m pip install "{name}>={oldest}{below}"'
        requirements.append(Requirement(f"{name} >= {oldest}", found, ok, required, purpose, cure))
    if browser:
        return requirements
    gpu = "nvidia-smi" if shutil.which("nvidia-smi") else ""
    cure = "not needed: all lessons run on a CPU"
    requirements.append(Requirement("NVIDIA GPU", gpu, bool(gpu), False, "CUDA runs", cure))
    return requirements


def _find_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _new_enough(found: str, oldest: str) -> bool:
    try:
        return Version(found) >= Version(oldest)
    except InvalidVersion:  # not found, or without a version that can be compared
        return False
