"""`classroom`: the puzzle alone on a page, for a projector. Voila serves it, so there is no notebook around it.

Whoever opens the page begins afresh, with all levels open, and nothing is written to anybody's progress.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from .common import bad_arguments

_CELL: Final = """\
import os
import gpipe_edu as ge
ge.puzzle(unlock=True, progress=f"{os.getpid()}.json")
"""

_POLICY: Final = "default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:"
"""Voila's page asks for a font of icons in the network, which the puzzle does not need: the browser doesn't get it."""


def run(port: int, options: list[str]) -> int:
    """Serve the puzzle until Ctrl-C."""
    with bad_arguments():
        try:
            voila: Any = import_module("voila.app").Voila
            nbformat: Any = import_module("nbformat")
        except ModuleNotFoundError as error:
            raise ValueError(f'classroom needs {error.name}: python -m pip install "gpipe_edu[classroom]"') from error
    from traitlets.config import Config

    with TemporaryDirectory(prefix="gpipe_edu_classroom_") as folder:
        page = Path(folder) / "Schedule puzzle.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_CELL)]), page)
        settings = Config({"Voila": {"tornado_settings": {"headers": {"Content-Security-Policy": _POLICY}}}})
        print(f"The puzzle is at http://localhost:{port}. Stop it with Ctrl-C.", flush=True)
        voila.launch_instance([str(page), f"--port={port}", *options], config=settings)
    return 0
