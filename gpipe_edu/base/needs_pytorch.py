"""What is said where PyTorch is missing: most of the package runs without it, so not everybody has it."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def pytorch_is_there(who: str) -> None:
    """Raises ModuleNotFoundError, which says what to install and what runs without it, if `who` can't be imported."""
    if find_spec("torch") is None:
        do = (
            "and a browser runs none"
            if sys.platform == "emscripten"
            else f'which is not here: {sys.executable} -m pip install "gpipe_edu[torch]"'
        )
        raise ModuleNotFoundError(
            f"{who} needs PyTorch, {do}. Schedules, simulate, charts, puzzles, plan, and the engine in NumPy, "
            "gpipe_edu.reference, run without it",
            name="torch",
        )
