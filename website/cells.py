"""The cells of a notebook as HTML. What follows a question is folded until it is answered."""

from __future__ import annotations

from html import escape
from typing import Any

from nbconvert.filters import ansi2html

from . import markdown


def html(notebook: Any, at: str, pages: dict[str, str]) -> str:
    """The body of the page."""
    parts, folded = [], False
    for cell in notebook.cells:
        new_part = cell.cell_type == "markdown" and cell.source.lstrip().startswith("#")
        asks = cell.cell_type == "code" and any(
            "text/html" in o.get("data", {}) and 'class="ask"' in o.data["text/html"] for o in cell.outputs
        )
        if folded and (new_part or asks):
            parts.append("</div>")
            folded = False
        parts.append(_cell(cell, at, pages))
        if asks:
            parts.append('<div class="after">')
            folded = True
    return "\n".join([*parts, "</div>"] if folded else parts)


def _cell(cell: Any, at: str, pages: dict[str, str]) -> str:
    if cell.cell_type == "markdown":
        return f'<section class="text" id="{escape(cell.id)}">{markdown.html(cell.source, at, pages)}</section>'
    if cell.cell_type != "code":
        return ""
    outputs = "".join(_output(output, at, pages) for output in cell.outputs)
    return f'<section class="cell">{markdown.code(cell.source)}<div class="outputs">{outputs}</div></section>'


def _output(output: Any, at: str, pages: dict[str, str]) -> str:
    if output.output_type == "stream":
        return f"<pre>{ansi2html(output.text)}</pre>"
    if output.output_type == "error":
        return f"<pre>{ansi2html(chr(10).join(output.traceback))}</pre>"
    data = output.data
    if "text/html" in data:
        return str(data["text/html"])
    if "image/png" in data:
        return (
            f'<img src="data:image/png;base64,{data["image/png"].strip()}" alt="{escape(data.get("text/plain", ""))}">'
        )
    if "text/markdown" in data:
        return markdown.html(data["text/markdown"], at, pages)
    return f"<pre>{escape(data.get('text/plain', ''))}</pre>"
