"""The script and the style for every host: files of JavaScript as one module, the palette as CSS variables.

The files are small modules that node can test one by one; a notebook and a page each take a single text, so imports
between them are dropped and the files are concatenated, each after those it uses.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from importlib.resources import files
from typing import Final

from gpipe_edu.view.palette import GROUNDS, PAINTS
from gpipe_edu.view.theme import DARK_HOSTS, HOSTS

_ENTRY: Final = "view/js/host.js"
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "(?P<file>\.[\w./]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=const |function |async function |class )", re.MULTILINE)


def _around(theme: str) -> dict[str, str]:
    ground = GROUNDS[theme]
    return {
        "paper": ground.paper,
        "ink": ground.ink,
        "faint": ground.faint,
        "store": ground.store,
        "stripe": ground.hatch,
        "alarm": ground.alarm,
    }


_LIGHT: Final = {**_around("light"), "bubble": "#FFFFFF", "rim": "#FFFFFF", "edge": GROUNDS["light"].hatch}
_DARK: Final = {
    **_around("dark"),
    "bubble": "#262626",
    "rim": "#E8E8E8",
    "edge": "#8A8A8A",
    "line": "#4A4A4A",
    "panel": "#262626",
    "accent": "#6FB7FF",
    "good": "#7FD694",
}
"""The page around the ops in dark mode; ops have the same colours in both."""


@cache
def script(entry: str = _ENTRY) -> str:
    """The file `entry` of this package and all it uses, as one module without imports and exports."""
    order: list[str] = []
    _collect(entry, order, ())
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", asset(name))) for name in order)


def widget_module(entry: str = _ENTRY) -> str:
    """The module that anywidget loads: the file `entry` exports `render`."""
    return f"{script(entry)}\nexport default {{ render }};\n"


@cache
def style() -> str:
    """The style sheet, with the palette in front of it."""
    light = _variables({**_LIGHT, **_op_colours()})
    dark = _variables(_DARK)
    sheet = asset("view/js/gantt.css")
    # A theme that is given wins; then the notebook's; then, outside of notebooks, the system's.
    return (
        f".ge-gantt {{ {light} }}\n{sheet}\n@media not print {{\n"
        f'.ge-gantt[data-theme="dark"], {DARK_HOSTS} .ge-gantt:not([data-theme="light"]) '
        f"{{ {dark} color-scheme: dark; }}\n"
        f"@media (prefers-color-scheme: dark) {{ :where(html:not({HOSTS}, :has({HOSTS}))) "
        f'.ge-gantt:not([data-theme="light"]) {{ {dark} color-scheme: dark; }} }}\n}}\n'
    )


def _collect(name: str, order: list[str], path: tuple[str, ...]) -> None:
    """Put `name` after everything it imports."""
    if name in path:
        raise RuntimeError(f"the scripts import each other in a circle: {' -> '.join((*path, name))}")
    if name in order:
        return
    for found in _IMPORT.finditer(asset(name)):
        _collect(posixpath.normpath(posixpath.join(posixpath.dirname(name), found["file"])), order, (*path, name))
    order.append(name)


def asset(name: str) -> str:
    """The text of a file of this package, by its path there."""
    return files("gpipe_edu").joinpath(name).read_text(encoding="utf-8")


def _op_colours() -> dict[str, str]:
    colours: dict[str, str] = {}
    for kind, paint in PAINTS.items():
        colours |= {kind: paint.fill, f"{kind}-text": paint.text, f"{kind}-edge": paint.edge}
    return colours


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--ge-{name}: {colour};" for name, colour in colours.items())
