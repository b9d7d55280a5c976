"""Until exercise 05 imports it from `gpipe_edu.pytorch.study`."""

from .study.stopwatch import watch

__all__ = ["watch"]
