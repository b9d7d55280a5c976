"""A cell that calls an unwritten function says so in a sentence: a traceback would only show our own stub."""

from __future__ import annotations

from traceback import walk_tb
from types import TracebackType
from typing import Any

from . import frontend


def tell_plainly() -> None:
    """From now on, in a notebook, an unwritten stub shows a sentence; other errors are shown as usual."""
    shell = frontend.jupyter_shell()
    if shell is not None:
        shell.set_custom_exc((NotImplementedError,), _show)


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: Any = None
) -> None:
    sentence = explain(error, trace, shell.user_ns)
    if sentence:
        error._render_traceback_ = lambda: [sentence]  # type: ignore[attr-defined]
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def explain(error: BaseException, trace: TracebackType, notebook: dict[str, Any]) -> str:
    """The sentence for a bare NotImplementedError of one of the notebook's functions; "" for anything else."""
    if type(error) is not NotImplementedError or error.args:
        return ""
    *_, (frame, _) = walk_tb(trace)
    if frame.f_globals is not notebook or frame.f_code.co_name == "<module>":
        return ""
    return f"{frame.f_code.co_qualname} is not written yet. Put your code in the place of `raise NotImplementedError`."
