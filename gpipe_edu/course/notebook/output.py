"""Messages for the user: Markdown that a notebook renders, the same words as plain text elsewhere."""

from __future__ import annotations

import re
from typing import Final

from . import frontend

_FENCE: Final = re.compile("`{3,}")
_DOT: Final = re.compile(r"<span style=[^>]*>&#9679;</span> ")
_BOLD: Final = re.compile(r"(?<!\w)\*\*(.+?)\*\*(?!\w)")  # not the power in 10**9


def show(markdown: str) -> None:
    """Display `markdown` in a notebook, print it elsewhere."""
    notebook = frontend.current()
    if notebook:
        notebook.display({"text/markdown": markdown, "text/plain": plain(markdown)})
    else:
        print(plain(markdown))


def plain(markdown: str) -> str:
    """The text without the Markdown markup that we use: bold, code, fences and dots in a colour. Fenced text stays."""
    fence, lines = "", []
    for line in markdown.splitlines():
        if fence:
            if line == fence:
                fence = ""
            else:
                lines.append(line)
        elif found := _FENCE.match(line):
            fence = found[0]
        else:
            lines.append(_BOLD.sub(r"\1", _DOT.sub("", line)).replace("`", ""))
    return "\n".join(lines)
