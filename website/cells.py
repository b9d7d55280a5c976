"""The cells of a notebook as HTML, with what runs them on the page. What follows a question is folded until it is
answered.
"""

from __future__ import annotations

import re
from html import escape
from itertools import count
from typing import Any

from nbconvert.filters import ansi2html

from . import markdown

_CHECK = re.compile(r'^check\("[^"]+", (\w+)')
_HINT = re.compile(r"^# hint\(", re.MULTILINE)


def html(notebook: Any, at: str, pages: dict[str, str]) -> str:
    """The body of the page."""
    parts, folded, numbers = [], False, count(1)
    for cell in notebook.cells:
        new_part = cell.cell_type == "markdown" and cell.source.lstrip().startswith("#")
        asks = cell.cell_type == "code" and any(
            "text/html" in o.get("data", {}) and 'class="ask"' in o.data["text/html"] for o in cell.outputs
        )
        if folded and (new_part or asks):
            parts.append("</div>")
            folded = False
        if cell.cell_type == "markdown":
            text = markdown.html(cell.source, at, pages)
            parts.append(f'<section class="text" id="{escape(cell.id)}">{text}</section>')
        elif cell.cell_type == "code":
            parts.append(_code(cell, next(numbers), _checked_by(cell, notebook), at, pages))
        if asks:
            parts.append('<div class="after">')
            folded = True
    return "\n".join([*parts, "</div>"] if folded else parts)


def _checked_by(cell: Any, notebook: Any) -> str:
    """The cell that checks what is defined in this one; "" for most."""
    for each in notebook.cells:
        found = each.cell_type == "code" and _CHECK.match(each.source)
        if found and re.search(rf"^(def|class) {found[1]}\b", cell.source, re.MULTILINE):
            return str(each.id)
    return ""


def _code(cell: Any, number: int, checked_by: str, at: str, pages: dict[str, str]) -> str:
    outputs = "".join(_output(output, at, pages) for output in cell.outputs)
    needs = cell.metadata.get("needs_pytorch", False)
    tools = [_NEEDS_PYTORCH] if needs else [_button("run", "Run"), _button("edit", "Edit")]
    if checked_by:
        tools.append(_button("check", "Check"))
    if _HINT.search(cell.source):
        tools.append(_button("hint", "Hint"))
    tools += [_button("back", "Take back", hidden=True), _button("above", "Run all above, then this", hidden=True)]
    return (
        f'<section class="cell" data-cell="{escape(cell.id)}" data-check="{escape(checked_by)}"'
        f'{" data-needs=pytorch" if needs else ""} aria-label="Cell {number}">{markdown.code(cell.source)}'
        f'<div class="tools"><span class="number">{number}</span>{"".join(tools)}'
        f'<span class="stands" role="status"></span></div><div class="outputs">{outputs}</div></section>'
    )


_NEEDS_PYTORCH = "<span>Recorded: this cell needs PyTorch, which no browser runs. <code>make lab</code> runs it.</span>"


def _button(action: str, words: str, hidden: bool = False) -> str:
    return f'<button type="button" data-do="{action}"{" hidden" if hidden else ""}>{words}</button>'


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
