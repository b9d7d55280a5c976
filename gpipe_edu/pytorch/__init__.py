"""The PyTorch engine: start with gpipe.py, then interpreter.py, stage.py, worker.py. What studies it is in study/."""

from .gpipe import GPipe
from .skip import Stash, Take
from .study.profile import balance_by_size, balance_by_time, profile

__all__ = ["GPipe", "Stash", "Take", "balance_by_size", "balance_by_time", "profile"]
