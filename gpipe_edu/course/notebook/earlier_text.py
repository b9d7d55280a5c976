"""Whether what is checked is older than the text that a learner sees: a cell that ends in an error defines nothing.

Then the earlier function is still there under its name, and a verdict would seem to be about the new text.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

from . import frontend


def earlier_text(function: Callable[..., Any]) -> str:
    """In Jupyter and IPython, a sentence that says so; "" if the last cell meant to define the function did so."""
    shell = frontend.jupyter_shell()
    name, own = getattr(function, "__name__", ""), _cell_of(function)
    if shell is None or not own or shell.user_ns.get(name) is not function:
        return ""
    cells = list(enumerate(shell.history_manager.input_hist_parsed))[::-1]
    defines = re.compile(rf"^(async def|def|class)\s+{re.escape(name)}\b", re.MULTILINE)
    newest = next((number for number, text in cells if defines.search(text)), None)
    mine = next((number for number, text in cells if text.rstrip("\n") == own), None)
    if newest is None or newest == mine:
        return ""
    earlier = "an earlier one" if mine is None else f"that of cell [{mine}]"
    return (
        f"**Cell [{newest}] has another `{name}`, but ended in an error before it was defined. What is judged here is "
        f"{earlier}.**"
    )


def _cell_of(function: Any) -> str:
    """The text of the cell that defines a function or class, "" if it is not known."""
    parts = list(vars(function).values()) if isinstance(function, type) else [function]
    codes = (getattr(part, "__code__", None) for part in parts)
    file = next((code.co_filename for code in codes if code is not None), "")
    return "".join(linecache.getlines(file)).rstrip("\n")
