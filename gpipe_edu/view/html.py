"""Pages are HTML files with CSS and JS beside them, not strings in Python, so that editors and linters know them."""

from __future__ import annotations

from pathlib import Path
from string import Template


def fill(module: str, **parts: str) -> str:
    """The page beside the Python file `module` and with its name, with HTML for each $word in it.

    $style and $script are the .css and the .js of the same name, unless they are among `parts`. Raises KeyError for a
    word that is not given.
    """
    files = {word: Path(module).with_suffix(ending) for word, ending in (("style", ".css"), ("script", ".js"))}
    own = {word: file.read_text(encoding="utf-8") for word, file in files.items() if file.exists()}
    return Template(Path(module).with_suffix(".html").read_text(encoding="utf-8")).substitute(own | parts)
