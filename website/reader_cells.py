"""What a page shows of its notebook: not what only those who run it in Jupyter need, nor what is true only elsewhere.

A cell with the tag `remove-cell`, as in Jupyter Book, is about running: keys, menus, what is installed. `progress` says
how its own learner stands, and where the site is built nobody has answered anything.
"""

from __future__ import annotations

import re
from typing import Any

TAG = "remove-cell"

_PROGRESS = re.compile(r"^progress\(", re.MULTILINE)
_UNCOMMENT = "for a hint, remove the first #; "
"""Words that a page has a button for instead."""


def leave_out(notebook: Any) -> None:
    """Take out of a notebook that has run what is not for the readers of its page."""
    notebook.cells = [cell for cell in notebook.cells if TAG not in cell.metadata.get("tags", [])]
    for cell in notebook.cells:
        cell.source = cell.source.replace(_UNCOMMENT, "")
        if cell.cell_type == "code" and _PROGRESS.search(cell.source):
            cell.outputs = [output for output in cell.outputs if output.output_type != "execute_result"]
