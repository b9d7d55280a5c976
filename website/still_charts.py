"""Still charts of a lesson as SVG inside its page: sharp, read by a screen reader, light or dark as the page is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpipe_edu.view.palette import PAGE
from gpipe_edu.view.theme import THEME

SVG = "image/svg+xml"

_MARK = re.compile(r'aria-labelledby="title-(\w+) ')


@contextmanager
def for_a_page() -> Iterator[None]:
    """Kernels that start meanwhile draw for a page."""
    before = os.environ.get(THEME)
    os.environ[THEME] = PAGE
    try:
        yield
    finally:
        del os.environ[THEME]
        if before is not None:
            os.environ[THEME] = before


def put_inline(notebook: Any) -> None:
    """Make each SVG among the outputs a part of the page, with names that no other one has."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = [output.data for output in outputs if SVG in output.get("data", {})]
    for number, data in enumerate(shown):
        text = data.pop(SVG)
        found = _MARK.search(text)
        data["text/html"] = text.replace(found[1], f"{found[1]}-{number}") if found else text
