"""This package as a wheel for the lab, with the masters beside it that `solution(...)` shows."""

from __future__ import annotations

import zipfile
from pathlib import Path

import gpipe_edu

LEFT_OUT = "py.typed"

NEEDED = ("numpy", "threadpoolctl", "cloudpickle", "packaging", "anywidget", "ipywidgets", "markdown-it-py")
"""Not matplotlib, which would be a third of what is fetched: a cell that imports what draws with it brings it in."""


def build(root: Path, folder: Path) -> Path:
    """Write the wheel into `folder`."""
    version = gpipe_edu.__version__
    path = folder / f"gpipe_edu-{version}-py3-none-any.whl"
    files = [file for file in sorted((root / "gpipe_edu").rglob("*")) if file.is_file() and _belongs(file)]
    files += sorted((root / "solutions").glob("exercise_*.py"))
    about = f"gpipe_edu-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in files:
            _add(wheel, file.relative_to(root).as_posix(), file.read_bytes())
        needs = "".join(f"Requires-Dist: {name}\n" for name in NEEDED)
        metadata = f"Metadata-Version: 2.1\nName: gpipe_edu\nVersion: {version}\n{needs}"
        _add(wheel, f"{about}/METADATA", metadata.encode())
        _add(
            wheel,
            f"{about}/WHEEL",
            b"Wheel-Version: 1.0\nGenerator: website\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        _add(wheel, f"{about}/RECORD", b"")
    return path


def _belongs(file: Path) -> bool:
    return "__pycache__" not in file.parts and not file.as_posix().endswith(LEFT_OUT)


def _add(wheel: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a file without its date, so that equal files make an equal wheel, which browsers then have cached."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(entry, content)
