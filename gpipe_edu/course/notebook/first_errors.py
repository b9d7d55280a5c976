"""Errors of the first hour are explained plainly: an unwritten function, a name of an earlier cell, no PyTorch."""

from __future__ import annotations

import sys
from traceback import walk_tb
from types import TracebackType
from typing import Any, Final

from . import frontend

RUN_ABOVE: Final = (
    "If an earlier cell makes it, run that one first, or all of them: Run > Run All Above Selected Cell. After a "
    "restart of the kernel nothing is there."
)
NO_PYTORCH: Final = (
    "A browser runs no PyTorch; what this notebook does in NumPy runs here."
    if sys.platform == "emscripten"
    else f'PyTorch is not here. To install it: {sys.executable} -m pip install "gpipe_edu[torch]", on Linux without a '
    "GPU with --extra-index-url https://download.pytorch.org/whl/cpu after it; then restart the kernel. What this "
    "notebook does in NumPy runs without it."
)


def tell_plainly() -> None:
    """From now on, in a notebook, an unwritten stub shows a sentence, a missing name or PyTorch one more line."""
    shell = frontend.jupyter_shell()
    if shell is not None:
        shell.set_custom_exc((NotImplementedError, NameError, ModuleNotFoundError), _show)


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: TracebackType, tb_offset: Any = None
) -> None:
    if isinstance(error, NameError):
        if is_missing_in_a_cell(error, trace, shell.user_ns):
            error.add_note(RUN_ABOVE)
    elif isinstance(error, ModuleNotFoundError):
        if error.name == "torch":
            error.add_note(NO_PYTORCH)
    elif sentence := explain(error, trace, shell.user_ns):
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


def is_missing_in_a_cell(error: NameError, trace: TracebackType, notebook: dict[str, Any]) -> bool:
    """Whether a cell itself, or a function of the notebook, asks for a name that the notebook does not have."""
    *_, (frame, _) = walk_tb(trace)
    return type(error) is NameError and frame.f_globals is notebook
