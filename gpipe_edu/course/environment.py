"""What this machine has of what the course needs: asked by the first notebook and by `python -m gpipe_edu doctor`.

Nothing is imported, because importing torch takes seconds and a broken package must not break the check.
"""

from __future__ import annotations

import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final, NamedTuple

_PACKAGES: Final = [
    # (name, oldest that works, required, what for); pyproject.toml states the same ranges, and a test compares them.
    ("numpy", "1.26", True, "the reference engine"),
    ("threadpoolctl", "3.5", True, "the reference engine"),
    ("rich", "13", True, "the command line"),
    ("typer", "0.29", True, "the command line"),
    ("matplotlib", "3.8", True, "pictures"),
    ("jupyterlab", "4.2", True, "notebooks"),
    ("ipykernel", "6.29", True, "notebooks"),
    ("ipywidgets", "8.1", True, "interactive charts"),
    ("anywidget", "0.9", True, "interactive charts"),
    ("torch", "2.11", False, "the PyTorch engine"),
]


class Finding(NamedTuple):
    """One thing the course uses: its name, the version found ("" if none), and how to get it."""

    name: str
    found: str
    ok: bool
    required: bool
    purpose: str
    cure: str


def look() -> list[Finding]:
    """Every requirement of the course and whether this machine meets it. Takes milliseconds."""
    python = ".".join(map(str, sys.version_info[:3]))
    findings = [
        Finding("Python >= 3.11", python, sys.version_info >= (3, 11), True, "everything", "install Python 3.11")
    ]
    for name, oldest, required, purpose in _PACKAGES:
        found = _installed(name)
        ok = bool(found) and _numbers(found) >= _numbers(oldest)
        cure = f'python -m pip install "{name}>={oldest}"'
        findings.append(Finding(f"{name} >= {oldest}", found, ok, required, purpose, cure))
    gpu = "nvidia-smi" if shutil.which("nvidia-smi") else ""
    findings.append(Finding("NVIDIA GPU", gpu, bool(gpu), False, "CUDA runs", "not needed: all lessons run on a CPU"))
    return findings


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.13.0+cpu" gives (2, 13, 0)."""
    numbers = []
    for part in text.partition("+")[0].split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
