"""Which cells of a notebook run on its page: all are tried, in this order, by what a page runs them with.

`python -m website.cells_that_run notebook.ipynb` prints the ids of those that fail, as JSON, last. It acts as a
browser's Python: no PyTorch, no process, no thread. A cell that fails leaves no names behind, since on its page it
does not run at all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import NoReturn

import nbformat

SECONDS = 600


def cells_that_fail(root: Path, notebook: Path) -> set[str]:
    """The ids of the code cells of `notebook` that end with an error. Raises CalledProcessError if it ends early."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "GPIPE_EDU_HOME": home, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", __spec__.name, str(notebook)]
        done = subprocess.run(command, cwd=home, env=environment, capture_output=True, timeout=SECONDS, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def _main(notebook: Path) -> None:
    sys.modules["torch"] = None  # type: ignore[assignment]  # which Python takes as a missing module
    sys.platform = "emscripten"
    subprocess.Popen.__init__ = _refuse  # type: ignore[method-assign]
    threading.Thread.start = _refuse  # type: ignore[method-assign]
    from website.live import host, run_cells

    host.start(lambda message: None)
    host.cells()
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    names, failing = vars(sys.modules["__main__"]), []
    for number, cell in enumerate(cells, 1):
        before = names.copy()
        if run_cells.run(cell.id, number, cell.source)["ended"]:
            failing.append(cell.id)
            names.clear()
            names.update(before)
    print("\n" + json.dumps(failing))


def _refuse(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("a page's Python starts neither processes nor threads")


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
