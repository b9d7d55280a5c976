"""A notebook run once, in a copy and without anyone's answers; its outputs are cached until our code changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from .fetched import CACHE

SECONDS = 300
"""For one cell."""

_BEGIN = "begin-live"
_OURS = (".py", ".js", ".css", ".toml", ".npz")


def execute(root: Path, path: Path, live: Path) -> Any:
    """The notebook with its outputs; its charts are files in `live`. Raises what a lesson's cell raises.

    In an exercise, whose function is still to be written, errors are outputs, too.
    """
    cache = CACHE.parent / "executed" / f"{path.stem}-{_digest(root, path)}"
    if not (cache / "notebook.ipynb").exists():
        with tempfile.TemporaryDirectory() as folder:
            _run(root, path, Path(folder))
            shutil.copytree(folder, cache, dirs_exist_ok=True)
    for file in cache.glob("*.html"):
        shutil.copy(file, live)
    return nbformat.read(cache / "notebook.ipynb", as_version=4)


def _run(root: Path, path: Path, folder: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    begin = f"from website.without_kernel import begin\nbegin({path.stem!r}, {str(folder)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin, id=_BEGIN))
    with tempfile.TemporaryDirectory() as home:
        ways = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "GPIPE_EDU_HOME": home, "PYTHONPATH": ways, "OMP_NUM_THREADS": "1"}
        client = NotebookClient(
            notebook,
            timeout=SECONDS,
            kernel_name="python3",
            allow_errors=path.parent.name == "exercises",
            resources={"metadata": {"path": str(path.parent)}},
        )
        client.execute(env=environment)
    notebook.cells = [cell for cell in notebook.cells if cell.id != _BEGIN]
    nbformat.write(notebook, folder / "notebook.ipynb")


def _digest(root: Path, path: Path) -> str:
    """A digest that changes with the notebook, the package and what makes widgets live."""
    digest = hashlib.sha256(path.read_bytes())
    files = [file for file in sorted((root / "gpipe_edu").rglob("*")) if file.suffix in _OURS]
    for file in [*files, root / "website" / "without_kernel.py", root / "requirements.txt"]:
        digest.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:16]
