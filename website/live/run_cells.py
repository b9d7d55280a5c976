"""Runs the cells of a page as a notebook would: names stay, the last value is shown, errors are shown with their lines.

A cell's text is kept under a file name such as "<cell 3>", so that tracebacks and `inspect` find its lines.
"""

from __future__ import annotations

import ast
import base64
import io
import linecache
import os
import pprint
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import ModuleType
from typing import Any, TextIO

from markdown_it import MarkdownIt

from gpipe_edu.course.check import NotYet
from gpipe_edu.course.notebook import frontend
from gpipe_edu.course.notebook.first_errors import explain
from gpipe_edu.view.palette import PAGE
from gpipe_edu.view.theme import THEME

from . import page_widgets, wire

MOST = 200_000
"""Characters that one run of a cell may print; a loop that prints forever must not fill the page."""

_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
_FORMS = {
    "_repr_html_": "text/html",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_markdown_": "text/markdown",
}


class Page:
    """Where the course shows things: the outputs of the cell that runs."""

    def __init__(self) -> None:
        self.cell = ""
        self.lines = 0

    def display(self, shown: object) -> None:
        """As `frontend.Frontend`."""
        wire.send(cell=self.cell, display=_bundle(shown))

    def open_line(self, words: str) -> Callable[[str], None]:
        """As `frontend.Frontend`."""
        self.lines += 1
        cell, line = self.cell, self.lines
        wire.send(cell=cell, line=line, text=words)
        return lambda words: wire.send(cell=cell, line=line, text=words)

    def abort_queued_cells(self) -> None:
        """Nothing to do: a page folds away what follows an open question."""


_page = Page()
_module = ModuleType("__main__")


def start() -> None:
    """Have the course show things on the page, and give the learner's names a module of their own, empty as yet."""
    frontend.use(_page)
    page_widgets.begin_page()
    _module.__dict__.clear()
    _module.__dict__["__name__"] = "__main__"
    warnings.filterwarnings("ignore", module="threadpoolctl")  # a warning of Pyodide's, no business of a reader
    os.environ |= {"MPLBACKEND": "agg", THEME: PAGE}
    _module.__dict__["input"] = _no_input
    sys.modules["__main__"] = _module


def run(cell: str, number: int, code: str) -> dict[str, Any]:
    """Run a cell. cell: its id on the page; number: what it is called in tracebacks.

    Gives {"ended": "" if it ran to its end, else how it did}, with "missing" the name that it lacked, if that was it.
    """
    _page.cell = cell
    wire.send(cell=cell, begins=True)
    file = f"<cell {number}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    names = _module.__dict__
    with _streams():
        try:
            _execute(code, file, names)
        except BaseException as error:  # a page ends with its worker, not with SystemExit
            if isinstance(error, NotYet):  # the report has been shown, and says more
                return {"ended": "not yet", "missing": ""}
            _tell(error, file, names)
            missing = getattr(error, "name", "") if isinstance(error, NameError) else ""
            return {"ended": "ended with an error", "missing": missing}
        finally:
            _show_plots()
    return {"ended": "", "missing": ""}


def _execute(code: str, file: str, names: dict[str, Any]) -> None:
    tree = ast.parse(code, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), file, "eval"), names)
        if value is not None and not code.rstrip().endswith(";"):
            _page.display(value)


@contextmanager
def _streams() -> Iterator[None]:
    printed, complained = _Stream("stdout"), _Stream("stderr")
    with redirect_stdout(printed), redirect_stderr(complained):
        yield
        printed.flush()
        complained.flush()


class _Stream(io.TextIOBase, TextIO):
    """Sends a line as soon as it is whole, or flushed."""

    def __init__(self, name: str) -> None:
        self._name, self._waiting, self._left = name, "", MOST

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._waiting += text
        if "\n" in text or "\r" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        text, self._waiting = self._waiting, ""
        if not text or self._left <= 0:
            return
        self._left -= len(text)
        if self._left <= 0:
            text = f"{text[:1000]}\n... it has printed {MOST:,} characters; what comes now is not shown\n"
        wire.send(cell=_page.cell, stream=self._name, text=text)


def _bundle(shown: Any) -> dict[str, Any]:
    """What a page needs to show a value: one form that it can render, and the text."""
    if isinstance(shown, dict) and "text/plain" in shown:
        found = dict(shown)
    elif hasattr(shown, "_repr_mimebundle_") and not isinstance(shown, type):
        made = shown._repr_mimebundle_()
        found = dict(made[0] if isinstance(made, tuple) else made)
    else:
        made = {} if isinstance(shown, type) else {mime: _made(shown, method) for method, mime in _FORMS.items()}
        found = {mime: form for mime, form in made.items() if form is not None}
        found.setdefault("text/plain", _text(shown))
    forms = (page_widgets.MIME, *_FORMS.values())
    form = next((form for form in forms if form in found), "text/plain")
    bundle = {form: found[form], "text/plain": found.get("text/plain", "")}
    if form == "text/markdown":
        bundle = {"text/html": _MARKDOWN.render(found[form]), "text/plain": bundle["text/plain"]}
    if isinstance(bundle.get("image/png"), bytes):
        bundle["image/png"] = base64.b64encode(bundle["image/png"]).decode("ascii")
    return bundle


def _made(shown: Any, method: str) -> Any:
    make = getattr(shown, method, None)
    return make() if callable(make) else None


def _text(shown: object) -> str:
    """The value as text, as notebooks show it: a long list over several lines."""
    return pprint.pformat(shown, width=79) if isinstance(shown, (list, tuple, dict, set)) else repr(shown)


def _show_plots() -> None:
    """Show the figures that a cell has drawn below it, each once."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if pyplot else ():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", dpi=110, bbox_inches="tight")
        _page.display({"image/png": picture.getvalue(), "text/plain": "a plot"})
    if pyplot:
        pyplot.close("all")


def _tell(error: BaseException, file: str, names: dict[str, Any]) -> None:
    """Send an error in its own words, with those of its lines that are in cells."""
    own = getattr(error, "_render_traceback_", None)
    trace = error.__traceback__
    sentence = explain(error, trace, names) if trace else ""
    if sentence:
        lines = [sentence]
    elif callable(own):
        lines = own()
    else:
        lines = _learners_lines(error)
        if isinstance(error, SyntaxError) and error.filename == file and _is_no_python(error.text or ""):
            lines.append("A page runs plain Python: lines with % or ! in front are for notebooks.")
    wire.send(cell=_page.cell, error="\n".join(line.rstrip("\n") for line in lines))


def _is_no_python(line: str) -> bool:
    return re.match(r"\s*[%!]", line) is not None


def _learners_lines(error: BaseException) -> list[str]:
    """A traceback without the lines of libraries and of this file."""
    whole = traceback.TracebackException.from_exception(error)
    part: Any = whole
    seen = []
    while part is not None and part not in seen:
        seen.append(part)
        own = [frame for frame in part.stack if frame.filename.startswith("<cell ")]
        part.stack = traceback.StackSummary.from_list(own)
        part = part.__cause__ or part.__context__
    return list(whole.format())


def _no_input(prompt: object = "") -> str:
    raise RuntimeError("input() has nobody to ask on a page: write the value into the cell")
