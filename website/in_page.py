"""Parts of pages that ask Python in the page (`website/live`): the puzzle, and the box for one's own schedule.

What Python would answer first is written into the page, so that it stands there before Python is up. The scripts are
plain ones: a browser loads no modules from a page opened by double click.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any, Final

from gpipe_edu.puzzles import LEVELS, SolvedLevels
from gpipe_edu.puzzles.session import Session
from gpipe_edu.view.gantt.assets import asset, script, style
from gpipe_edu.view.puzzle.widget import Puzzle

from .live.typed_schedule import COSTS, judge, offer

HERE = Path(__file__).parent
PYODIDE = "lab/static/pyodide/"

ROWS: Final = "F0 F1 F2 B0 B1 B2\nF0 B0 F1 B1 F2 B2"
"""The schedule that stands in the box; one change makes it hang."""


def puzzle(with_python: bool) -> str:
    """The body of the puzzle's page. with_python: the site has Python for browsers in PYODIDE."""
    return _filled("puzzle.html", _first_boards(), with_python)


def box(with_python: bool) -> str:
    """The box for a schedule of one's own, with its chart."""
    return _filled("box.html", {"rows": ROWS, "offer": offer(), "value": judge(ROWS, COSTS)}, with_python)


def write_assets(folder: Path, height: str) -> None:
    """Scripts and styles of both. height: the script with which a page in a frame says how high it is."""
    (folder / "worker.js").write_text(_text("worker.js"), encoding="utf-8")
    app = f"const createPuzzle = (() => {{\n{script('puzzle_app.js')}\nreturn createPuzzle;\n}})();"
    python = [_text("merge.js"), _text("python.js")]
    _plain(folder / "puzzle.js", app, *python, _text("puzzle.js"), height)
    chart = f"const createApp = (() => {{\n{script('app.js')}\nreturn createApp;\n}})();"
    _plain(folder / "box.js", chart, _text("box_link.js"), *python, _text("box.js"))
    (folder / "chart.css").write_text(style(), encoding="utf-8")
    (folder / "puzzle.css").write_text(style() + asset("puzzle.css"), encoding="utf-8")


def _filled(page: str, first: Any, with_python: bool) -> str:
    scripts = {name: _text(name) for name in ("anywidget.py", "typed_schedule.py", "host.py")}
    python = {"folder": PYODIDE if with_python else "", "worker": "assets/worker.js", "scripts": scripts}
    return (HERE / page).read_text(encoding="utf-8").format(first=_inside(first), python=_inside(python))


def _first_boards() -> dict[str, Any]:
    """The offer, and by level the first answer; "" is what somebody sees who comes for the first time."""
    with tempfile.TemporaryDirectory() as folder:
        new = SolvedLevels(Path(folder, "new.json"))
        everything = SolvedLevels(Path(folder, "all.json"), everything=True)
        sessions = {"": Session("", new), **{level.key: Session(level.key, everything) for level in LEVELS}}
        widgets = {key: Puzzle(session) for key, session in sessions.items()}
        offer = {**json.loads(widgets[""].offer), "engines": ["numpy"]}  # PyTorch does not run in browsers
        return {"offer": offer, "answers": {key: json.loads(widget.answer) for key, widget in widgets.items()}}


def _plain(path: Path, *parts: str) -> None:
    """One script out of several modules, whose names stay inside."""
    text = re.sub(r"^import .*;\n|^export ", "", "\n".join(parts), flags=re.MULTILINE)
    path.write_text(f"(() => {{\n{text}\n}})();\n", encoding="utf-8")


def _inside(data: Any) -> str:
    """JSON for a script element."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def _text(name: str) -> str:
    return (HERE / "live" / name).read_text(encoding="utf-8")
