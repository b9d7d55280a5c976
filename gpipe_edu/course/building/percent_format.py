"""The master of an exercise: a Python file with `# %%` lines between its cells, which runs, is linted and imported.

    # %% [markdown]
    # Text, a comment a line.

    # %% nbgrader={"grade": true, ...}
    check("ex01/splitting", split)

A subset of jupytext's format, so teachers may use jupytext; building notebooks needs only this file.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

_MARK: Final = re.compile(r"^# %%(?P<rest>.*)$")
_REGION: Final = re.compile(
    r"^(?P<indent> *)### BEGIN SOLUTION\n(?P<body>.*?)^(?P=indent)### END SOLUTION\n?", re.MULTILINE | re.DOTALL
)


class MasterCell(NamedTuple):
    """One cell: "markdown" or "code", its source, and the metadata of its `# %%` line."""

    kind: str
    source: str
    metadata: dict[str, Any]


def read(text: str) -> list[MasterCell]:
    """The cells of a master. Raises ValueError, naming the line, for a `# %%` line that can't be read."""
    cells: list[tuple[str, dict[str, Any], list[str]]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _MARK.match(line)
        if mark:
            cells.append((*_head(mark["rest"].strip(), number), []))
        elif cells:
            cells[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"line {number} stands before the first # %% line: {line}")
    return [MasterCell(kind, _body(kind, lines), metadata) for kind, metadata, lines in cells]


def remove_solution(source: str) -> str:
    """The source with every solution replaced by `raise NotImplementedError`. Raises ValueError for a lone marker."""
    cleared = _REGION.sub(lambda match: f"{match['indent']}raise NotImplementedError\n", source).rstrip("\n")
    if "### BEGIN SOLUTION" in cleared or "### END SOLUTION" in cleared:
        raise ValueError("a ### BEGIN SOLUTION has no ### END SOLUTION with the same indent, or the other way round")
    return cleared


def solution_of(source: str) -> str:
    """The source with its solution, without the markers."""
    return re.sub(r"^ *### (BEGIN|END) SOLUTION\n", "", source + "\n", flags=re.MULTILINE).rstrip("\n")


def _head(rest: str, number: int) -> tuple[str, dict[str, Any]]:
    kind = "code"
    if rest.startswith("[markdown]"):
        kind, rest = "markdown", rest.removeprefix("[markdown]").strip()
    if not rest:
        return kind, {}
    name, equals, value = rest.partition("=")
    try:
        if not equals or not name.isidentifier():
            raise ValueError
        return kind, {name: json.loads(value)}
    except ValueError:
        raise ValueError(f"line {number}: # %% is followed by [markdown], or by a name=JSON, not by {rest!r}") from None


def _body(kind: str, lines: list[str]) -> str:
    if kind == "markdown":
        lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
    return "\n".join(lines).strip("\n")
