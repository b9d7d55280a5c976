"""Until exercise 05 imports it from `gpipe_edu.pytorch.study`."""

from .study.chores import Chore, nap

__all__ = ["Chore", "nap"]
