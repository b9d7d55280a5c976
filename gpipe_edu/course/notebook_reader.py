"""What a learner has written in a notebook file: its functions, without running what the notebook does with them.

Imports, functions, classes and constants are taken, in their order; a cell that calls something is left out, so that
nothing trains, prints or loops while an editor's save is looked at.
"""

from __future__ import annotations

import ast
import json
import linecache
import types
from pathlib import Path
from typing import Any

from gpipe_edu.process.lines import lines_of

_TAKEN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def functions(path: Path) -> dict[str, Any]:
    """The names that the notebook `path` defines, as a notebook's own names.

    Raises SyntaxError, naming the cell, for one that is no Python, ValueError for a file that is no notebook, and
    whatever an import raises.
    """
    module = types.ModuleType("__main__")
    for number, source in enumerate(_cells(path), start=1):
        name = f"{path.name}, code cell {number}"
        tree = ast.parse(source, filename=name)
        tree.body = [node for node in tree.body if isinstance(node, _TAKEN) or _is_constant(node)]
        linecache.cache[name] = (len(source), None, lines_of(source), name)
        exec(compile(tree, name, "exec"), module.__dict__)
    return module.__dict__


def _cells(path: Path) -> list[str]:
    """The code cells, with lines that only IPython understands as comments."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no notebook, or is being written just now") from error
    return ["\n".join("#" + line if line[:1] in "%!" else line for line in text.split("\n")) for text in sources]


def _is_constant(node: ast.stmt) -> bool:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True
