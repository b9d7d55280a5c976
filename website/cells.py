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

_CHECK = re.compile(r'^check\("([^"]+)", (\w+)')
_HINT = re.compile(r"^# hint\(", re.MULTILINE)


def html(notebook: Any, at: str, pages: dict[str, str]) -> str:
    """The body of the page."""
    parts, folded, numbers = [], False, count(1)
    for cell in notebook.cells:
        asks = cell.cell_type == "code" and any(
            "text/html" in o.get("data", {}) and 'class="ask"' in o.data["text/html"] for o in cell.outputs
        )
        if cell.cell_type == "markdown":
            before, heading = _split_at_heading(cell.source) if folded else (cell.source, "")
            parts.append(f'<section class="text" id="{escape(cell.id)}">{markdown.html(before, at, pages)}</section>')
            if heading:
                parts.append(f'</div>\n<section class="text">{markdown.html(heading, at, pages)}</section>')
                folded = False
        elif cell.cell_type == "code":
            if folded and asks:
                parts.append("</div>")
                folded = False
            parts.append(_code(cell, next(numbers), _checked_by(cell, notebook), at, pages))
        if asks:
            parts.append('<div class="after">')
            folded = True
    return "\n".join([*parts, "</div>"] if folded else parts)


def _split_at_heading(source: str) -> tuple[str, str]:
    """What comes before the first heading, and the rest: a new part, which no question above it hides."""
    inside, lines = False, source.splitlines(keepends=True)
    for i, line in enumerate(lines):
        inside ^= line.startswith("```")
        if not inside and re.match(r"#{1,6} ", line):
            return "".join(lines[:i]), "".join(lines[i:])
    return source, ""


def _checked_by(cell: Any, notebook: Any) -> tuple[str, str]:
    """The cell that checks what is defined in this one, and the exercise it is an answer to; "" and "" for most."""
    for each in notebook.cells:
        found = each.cell_type == "code" and _CHECK.match(each.source)
        if found and re.search(rf"^(def|class) {found[2]}\b", cell.source, re.MULTILINE):
            return str(each.id), found[1]
    return "", ""


def _code(cell: Any, number: int, checked_by: tuple[str, str], at: str, pages: dict[str, str]) -> str:
    check, exercise = checked_by
    outputs = "".join(_output(output, at, pages) for output in cell.outputs)
    needs = cell.metadata.get("needs_pytorch", False)
    tools = [_RECORDED if outputs else _NEEDS_PYTORCH] if needs else [_button("run", "Run"), _button("edit", "Edit")]
    if check and not needs:
        tools.append(_button("check", "Check", title="Ctrl+Enter"))
    if _HINT.search(cell.source):
        tools.append(_button("hint", "Hint"))
    tools += [_button("back", "Take back", hidden=True), _button("above", "Run all above, then this", hidden=True)]
    return (
        f'<section class="cell" data-cell="{escape(cell.id)}" data-check="{check}" data-exercise="{exercise}"'
        f'{" data-needs=pytorch" if needs else ""} aria-label="Cell {number}">{markdown.code(cell.source)}'
        f'<div class="tools"><span class="number">{number}</span>{"".join(tools)}'
        f'<span class="stands" role="status"></span><span class="taken"></span>'
        f'<span class="solved" hidden>\u2713 solved</span></div>'
        f'<div class="outputs">{outputs}</div></section>'
    )


_NEEDS_PYTORCH = (
    '<span title="No browser runs PyTorch. On your own machine make lab runs this cell.">needs PyTorch</span>'
)
_RECORDED = _NEEDS_PYTORCH.replace(">needs", ">recorded: needs")


def _button(action: str, words: str, hidden: bool = False, title: str = "") -> str:
    more = (" hidden" if hidden else "") + (f' title="{title}"' if title else "")
    return f'<button type="button" data-do="{action}"{more}>{words}</button>'


def _output(output: Any, at: str, pages: dict[str, str]) -> str:
    if output.output_type == "stream":
        return f"<pre>{ansi2html(output.text)}</pre>"
    if output.output_type == "error":
        return f'<pre class="error">{ansi2html(chr(10).join(output.traceback))}</pre>'
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
