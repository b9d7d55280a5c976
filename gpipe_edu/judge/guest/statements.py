"""A function made, where an answer runs, of statements that were cut out of a notebook."""

from __future__ import annotations
import __future__

import ast
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
IMPORTS: Final = (ast.Import, ast.ImportFrom)
_DEFINING: Final = (*DEFINITIONS, *IMPORTS, ast.Assign, ast.AnnAssign, ast.AugAssign)
_FUTURE: Final = __future__.annotations.compiler_flag


def make(parts: Sequence[tuple[str, int, str]], function: str) -> Callable[..., Any]:
    """Run the statements of an answer as a notebook would, and return its function. Only for a confined process.

    As in a notebook, one that defines nothing may fail, such as a loop that saves files: the next one runs.
    """
    module = types.ModuleType("__main__")
    vars(module)["display"] = lambda *things, **how: None  # which every notebook has
    sys.modules["__main__"] = module
    flags = 0
    for name, line, text in parts:
        code = compile("\n" * (line - 1) + text, name, "exec", flags, dont_inherit=True)
        flags |= code.co_flags & _FUTURE
        try:
            exec(code, vars(module))
        except Exception:
            if all(map(only_defines, ast.parse(text).body)):
                raise
    made: Callable[..., Any] = getattr(module, function)
    return made


def only_defines(node: ast.stmt) -> bool:
    """Whether a statement defines or assigns, and does nothing else; an `if` or a `try` may contain such statements."""
    if isinstance(node, ast.If | ast.Try):
        inside = [*node.body, *node.orelse, *getattr(node, "finalbody", ())]
        inside += [one for handler in getattr(node, "handlers", ()) for one in handler.body]
        return all(only_defines(one) or isinstance(one, ast.Pass) for one in inside)
    return isinstance(node, _DEFINING)
