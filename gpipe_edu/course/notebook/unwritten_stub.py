"""A cell that calls an unwritten function says so in a sentence: a traceback would only show our own stub."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


def tell_plainly() -> None:
    """From now on, in a notebook, an unwritten stub shows a sentence; other errors are shown as usual."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        shell.set_custom_exc((NotImplementedError,), _show)


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: Any = None
) -> None:
    name = _stub(error, trace, shell.user_ns)
    if name:
        sentence = f"{name} is not written yet. Put your code in the place of `raise NotImplementedError`."
        error._render_traceback_ = lambda: [sentence]  # type: ignore[attr-defined]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def _stub(error: BaseException, trace: TracebackType, notebook: dict[str, Any]) -> str:
    """The name of the notebook's function that raised a bare NotImplementedError; "" if it was something else."""
    if type(error) is not NotImplementedError or error.args:
        return ""
    last = trace
    while last.tb_next is not None:
        last = last.tb_next
    frame = last.tb_frame
    return frame.f_code.co_qualname if frame.f_globals is notebook and frame.f_code.co_name != "<module>" else ""
