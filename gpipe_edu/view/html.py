"""Pages are HTML files with CSS and JS beside them, not strings in Python, so that editors and linters know them."""

from __future__ import annotations

from pathlib import Path
from string import Template


def fill(module: str, **parts: str) -> str:
    """The page beside the Python file `module` and with its name, with HTML for each $word in it.

    $style is a style element with the .css of the same name, $script the text of the .js, unless `parts` has them;
    $policy forbids the page to fetch anything, and to run scripts if it has none. Raises KeyError for a word that is
    not given.
    """
    page = Path(module).with_suffix(".html").read_text(encoding="utf-8")
    files = {word: Path(module).with_suffix(ending) for word, ending in (("style", ".css"), ("script", ".js"))}
    own = {word: file.read_text(encoding="utf-8") for word, file in files.items() if file.exists()}
    if "style" in own:
        own["style"] = style_element(own["style"])
    scripts = " script-src 'unsafe-inline';" if "<script" in page else ""
    rules = f"default-src 'none';{scripts} style-src 'unsafe-inline'; img-src data:"
    own["policy"] = f'<meta http-equiv="Content-Security-Policy" content="{rules}">'
    return Template(page).substitute(own | parts)


def style_element(css: str) -> str:
    """A style element with these rules."""
    return f"<style>\n{css}</style>"


def json_element(attribute: str, json: str) -> str:
    """A script element that holds data, and that nothing in the data can end. attribute: its id or class."""
    return f'<script type="application/json" {attribute}>{json.replace("<", chr(92) + "u003c")}</script>'
