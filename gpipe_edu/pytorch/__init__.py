"""The PyTorch engine: start with gpipe.py, then interpreter.py, stage.py and worker.py."""

from .gpipe import GPipe
from .profile import balance_by_memory, balance_by_time, profile
from .skip import Stash, Take

__all__ = ["GPipe", "Stash", "Take", "balance_by_memory", "balance_by_time", "profile"]
