"""Messages for the user: Markdown that a notebook renders, the same words as plain text elsewhere."""

from __future__ import annotations

import re
from typing import Final

from . import frontend

_BOLD: Final = re.compile(r"(?<!\w)\*\*(.+?)\*\*(?!\w)")  # not the power in 10**9


def show(markdown: str) -> None:
    """Display `markdown` in a notebook, print it elsewhere."""
    notebook = frontend.current()
    if notebook:
        notebook.display({"text/markdown": markdown, "text/plain": plain(markdown)})
    else:
        print(plain(markdown))


def plain(markdown: str) -> str:
    """The text without the Markdown markup that we use: bold, code and fences. Fenced text stays as it is."""
    inside, lines = False, []
    for line in markdown.splitlines():
        if line.startswith("```"):
            inside = not inside
        else:
            lines.append(line if inside else _BOLD.sub(r"\1", line).replace("`", ""))
    return "\n".join(lines)
