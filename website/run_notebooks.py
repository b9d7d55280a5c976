"""A notebook run once, in a copy and without anyone's answers; its outputs are cached until our code changes.

Cells that need PyTorch, which no browser runs, are marked: those that end with an error only where it is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from gpipe_edu.course.building.build import notebook_text

from .cells_that_run import cells_that_fail
from .fetched import CACHE
from .lab import needs_pytorch

SECONDS = 600
"""For one cell."""

_BEGIN = "begin-live"
_OURS = (".py", ".js", ".css", ".toml", ".npz", ".txt")
_LIVE, _PAGE = (
    ("website/without_kernel.py", "website/still_charts.py"),
    ("website/cells_that_run.py", "website/live/*.py"),
)
"""What runs a notebook for its page, and what runs its cells on the page."""


def execute(root: Path, path: Path, live: Path) -> Any:
    """The notebook with its outputs; its charts are files in `live`. Raises what a lesson's cell raises.

    In an exercise, whose function is still to be written, errors are outputs, too.
    """
    cache = CACHE.parent / "executed" / f"{path.stem}-{_digest(root, path, _LIVE)}"
    if not (cache / "notebook.ipynb").exists():
        with tempfile.TemporaryDirectory() as folder:
            _run(root, path, Path(folder))
            shutil.copytree(folder, cache, dirs_exist_ok=True)
    for file in cache.glob("*.html"):
        shutil.copy(file, live)
    notebook = nbformat.read(cache / "notebook.ipynb", as_version=4)
    tried = cache / f"needs-pytorch-{_digest(root, path, _PAGE)}.json"
    if not tried.exists():
        tried.write_text(json.dumps(_cells_that_need_pytorch(root, path, notebook)), encoding="utf-8")
    needing = json.loads(tried.read_text(encoding="utf-8"))
    for cell in notebook.cells:
        cell.metadata["needs_pytorch"] = cell.id in needing
    return notebook


def _run(root: Path, path: Path, folder: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    begin = f"from website.without_kernel import begin\nbegin({path.stem!r}, {str(folder)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(begin, id=_BEGIN))
    with tempfile.TemporaryDirectory() as home:
        ways = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "GPIPE_EDU_HOME": home, "PYTHONPATH": ways, "OMP_NUM_THREADS": "1"}
        environment.pop("MPLBACKEND", None)  # a kernel shows no plots with any but its own
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


def _cells_that_need_pytorch(root: Path, path: Path, notebook: Any) -> list[str]:
    """Their ids. In an exercise, those that its solution needs, since without one most cells fail anyway."""
    if not needs_pytorch(notebook):
        return []
    master = root / "solutions" / f"{path.stem}.py"
    if not master.exists():
        failing = cells_that_fail(root, path)
        return [cell.id for cell in notebook.cells if cell.id in failing and not _failed(cell)]
    with tempfile.TemporaryDirectory() as folder:
        solved = Path(folder, path.name)
        solved.write_text(notebook_text(master, marked=True), encoding="utf-8")
        return sorted(cells_that_fail(root, solved))


def _failed(cell: Any) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", ()))


def _digest(root: Path, path: Path, others: Sequence[str]) -> str:
    """A digest that changes with the notebook, the package and `others`, patterns of files."""
    digest = hashlib.sha256(path.read_bytes())
    files = [file for file in sorted((root / "gpipe_edu").rglob("*")) if file.suffix in _OURS]
    ours = [file for pattern in others for file in sorted(root.glob(pattern))]
    for file in [*files, *ours, root / "requirements.txt"]:
        digest.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()[:16]
