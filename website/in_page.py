"""Parts of pages that ask Python in the page (`website/live`): the puzzle, and the box for one's own schedule.

Python's first answer is written into the page, so that it is there before Python is up. The scripts are
plain ones: a browser loads no modules from a page opened by double click.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from gpipe_edu.puzzles import LEVELS, SolvedLevels
from gpipe_edu.puzzles.page.widget import Puzzle
from gpipe_edu.puzzles.session import Session
from gpipe_edu.view.gantt.assets import asset, style
from gpipe_edu.view.html import json_element

from .bundle import bundle
from .live.typed_schedule import COSTS, judge, offer

HERE = Path(__file__).parent
PYODIDE = "lab/static/pyodide/"

NUMPY = ("numpy", "threadpoolctl", "cloudpickle", "markdown-it-py", "packaging")
"""The packages that cells need. matplotlib comes with the first cell that draws with it."""

ROWS: Final = "F0 F1 F2 B0 B1 B2\nF0 B0 F1 B1 F2 B2"
"""The schedule in the box at first; one change makes it hang."""


def puzzle(with_python: bool) -> str:
    """The body of the puzzle's page. with_python: whether the site has Python for browsers, in PYODIDE."""
    return _filled("puzzle.html", with_python, first=json_element('id="first"', json.dumps(_first_boards())))


def box(with_python: bool) -> str:
    """The box for a schedule of one's own, with its chart."""
    first = {"rows": ROWS, "offer": offer(ROWS), "value": judge(ROWS, COSTS)}
    return _filled("box.html", with_python, first=json_element('id="box"', json.dumps(first)))


def notebook(body: str, up: str, with_python: bool) -> str:
    """The body of a notebook's page, with what runs its cells. up: the way to the top of the site."""
    return _filled("notebook.html", with_python, up, NUMPY, body=body)


def write_assets(folder: Path) -> None:
    """Scripts and styles of both."""
    shutil.copy(HERE / "live" / "worker.js", folder)
    files = {f"website/live/{path.name}": path.read_text(encoding="utf-8") for path in (HERE / "live").glob("*.py")}
    (folder / "python.json").write_text(json.dumps({"website/__init__.py": "", **files}), encoding="utf-8")
    bundle([HERE / "live" / name for name in ("puzzle.js", "box.js", "cells.js", "progress.js")], folder)
    (folder / "chart.css").write_text(style(), encoding="utf-8")
    (folder / "puzzle.css").write_text(style() + asset("puzzles/page/js/puzzle.css"), encoding="utf-8")


def _filled(page: str, with_python: bool, up: str = "", packages: tuple[str, ...] = (), **parts: str) -> str:
    python = {
        "folder": up + PYODIDE if with_python else "",
        "worker": up + "assets/worker.js",
        "files": up + "assets/python.json",
        "packages": ["traitlets", *packages],
        "lab": f"{up}lab/",
    }
    return (
        (HERE / page)
        .read_text(encoding="utf-8")
        .format(python=json_element('id="python"', json.dumps(python)), up=up, **parts)
    )


def _first_boards() -> dict[str, Any]:
    """The offer, and by level the first answer; "" is what a first-time visitor sees."""
    with tempfile.TemporaryDirectory() as folder:
        new = SolvedLevels(Path(folder, "new.json"))
        widgets = {key: Puzzle(Session(key, new)) for key in ("", *(level.key for level in LEVELS))}
        offer = {**json.loads(widgets[""].offer), "engines": ["numpy"]}  # PyTorch does not run in browsers
        return {"offer": offer, "answers": {key: json.loads(widget.answer) for key, widget in widgets.items()}}
