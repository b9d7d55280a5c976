"""A report of one's own measurements, as one file to keep: it opens in any browser, offline, with the pictures inside.

A notebook's outputs vanish with the next run, and measurements mean little without the machine they were made on. So a
report starts with the machine and collects texts, tables and pictures in the order they are added.
"""

from __future__ import annotations

import base64
import datetime
import io
import os
import platform
from collections.abc import Iterable, Mapping
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpipe_edu.timeline import Timeline
from gpipe_edu.view.html import fill

from .notebook import frontend, output

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class LabReport:
    """`LabReport(title)`: add `heading`, `text`, `quote`, `table`, `picture` in reading order, then `save` it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []
        self.table([machine()])

    def heading(self, words: str) -> None:
        """Begin a section."""
        self._parts.append(f"<h2>{escape(words)}</h2>")

    def text(self, words: str) -> None:
        """Add a paragraph."""
        self._parts.append(f"<p>{escape(words)}</p>")

    def quote(self, words: str) -> None:
        """Add preformatted text, such as a sample or a schedule."""
        self._parts.append(f"<pre>{escape(words)}</pre>")

    def table(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a table: one mapping per row, whose keys are the columns. Raises ValueError if the keys differ."""
        rows = list(rows)
        columns = list(rows[0]) if rows else []
        for row in rows:
            if list(row) != columns:
                raise ValueError(f"a row has the columns {list(row)}; all rows must have those of the first: {columns}")
        lines = ["".join(f"<th>{escape(str(column))}</th>" for column in columns)]
        lines += ["".join(f"<td>{escape(str(value))}</td>" for value in row.values()) for row in rows]
        self._parts.append("<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>")

    def picture(self, shown: Figure | Timeline, alt: str) -> None:
        """Add a matplotlib figure or a timeline; `alt` says in words what it shows, for those who cannot see it."""
        if isinstance(shown, Timeline):
            from gpipe_edu.view.matplotlib_painter import to_png  # draws, so loaded only when something is drawn

            png = to_png(shown)
        else:
            file = io.BytesIO()
            shown.savefig(file, format="png", dpi=150)
            png = file.getvalue()
        code = base64.b64encode(png).decode("ascii")
        self._parts.append(f'<p><img alt="{escape(alt)}" src="data:image/png;base64,{code}"></p>')

    def save(self, path: str | Path) -> Path:
        """Write the report to `path`, replacing what an earlier run wrote there; returns the full path.

        In a notebook a link to it is shown.
        """
        file = Path(path).resolve()
        file.write_text(fill(__file__, title=escape(self.title), body="\n".join(self._parts)), encoding="utf-8")
        if frontend.current():
            output.show(f"Your report: [{file.name}]({os.path.relpath(file)})")
        return file


def machine() -> dict[str, str]:
    """Where and when: what every measurement should state."""
    return {
        "date": datetime.date.today().isoformat(),
        "processor": platform.machine(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "Python": platform.python_version(),
        "NumPy": _find_version("numpy"),
        "PyTorch": _find_version("torch"),
    }


def _find_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
