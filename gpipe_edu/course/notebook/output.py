"""Messages for the user: Markdown that a notebook renders, the same words as plain text elsewhere."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any, Final

_BOLD: Final = re.compile(r"(?<!\w)\*\*(.+?)\*\*(?!\w)")  # not the power in 10**9


def in_a_notebook() -> bool:
    """Whether this is a Jupyter kernel. IPython is only asked if it has been loaded already."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def show(markdown: str) -> None:
    """Display `markdown` in a notebook, print it elsewhere."""
    if not in_a_notebook():
        print(plain(markdown))
        return
    display: Any = import_module("IPython.display").display
    display({"text/markdown": markdown, "text/plain": plain(markdown)}, raw=True)


def plain(markdown: str) -> str:
    """The text without the Markdown markup that we use: bold, code and fences. Fenced text stays as it is."""
    inside, lines = False, []
    for line in markdown.splitlines():
        if line.startswith("```"):
            inside = not inside
        else:
            lines.append(line if inside else _BOLD.sub(r"\1", line).replace("`", ""))
    return "\n".join(lines)
