"""`classroom` and `lecture`: what is shown in front of a class.

The puzzle is alone on a page, for a projector. Voila serves it, so there is no notebook around it. Each visitor begins
afresh, and no one's progress is written. The slides for a lesson are a file.
"""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer

from gpipe_edu.base.terminal import Port, bad_arguments, needing, put_first
from gpipe_edu.teaching.lecture import outline

_CELL: Final = """\
import os
import gpipe_edu as ge
ge.puzzle(progress=f"{os.getpid()}.json")
"""

_POLICY: Final = "default-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:"
"""Blocks requests to other hosts, which a future release of Voila might make."""


def classroom(context: typer.Context, port: Port = 8888) -> int:
    """Serve the puzzle alone on a page, for a projector; further options are Voila's."""
    with bad_arguments(), needing("teach", "classroom"):
        voila: Any = import_module("voila.app").Voila
        nbformat: Any = import_module("nbformat")
    from traitlets.config import Config

    with TemporaryDirectory(prefix="gpipe_edu_classroom_") as folder:
        page = Path(folder) / "Schedule puzzle.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_CELL)]), page)
        _write_template(Path(folder))
        settings = Config({"Voila": {"tornado_settings": {"headers": {"Content-Security-Policy": _POLICY}}}})
        print(f"The puzzle is at http://localhost:{port}. Stop it with Ctrl-C.", flush=True)
        voila.launch_instance([str(page), f"--port={port}", "--template=puzzle", *context.args], config=settings)
    return 0


def _write_template(folder: Path) -> None:
    """Put the template "puzzle" where Voila looks for it.

    It omits the icon font's style sheets, which Voila loads from another host (the puzzle has no icons), and makes
    everything as large as the wall.
    """
    place = folder / "voila" / "templates" / "puzzle"
    place.mkdir(parents=True)
    (place / "conf.json").write_text('{"base_template": "lab"}', encoding="utf-8")
    shutil.copy(Path(__file__).with_name("classroom.html.j2"), place / "index.html.j2")
    put_first(os.environ, "JUPYTER_PATH", str(folder))


def lecture(
    number: Annotated[str, typer.Argument(metavar="LESSON", help="Its number, such as 03.")],
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The HTML file to write.")],
) -> int:
    """Write the slides for a lesson: one file with live charts and votes, which needs no network."""
    with bad_arguments():
        found = outline.read(number)
        if not path.parent.is_dir():
            raise ValueError(f"the folder of {str(path)!r} does not exist; create it first")
        from gpipe_edu.teaching.lecture.slides import html  # it draws, so it is loaded late

        path.write_text(html(found), encoding="utf-8")
    print(f"{path}: {len(found.slides) + 1} slides. Open it in a browser; printed, it is a handout with the answers.")
    return 0
