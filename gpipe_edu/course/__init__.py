"""What makes a package a course: predictions before a surprise, checked exercises, what a learner has done."""

from .attempts import hint
from .check import NotYet, check
from .predict import forget, predict
from .progress import progress, reset, solution

__all__ = ["NotYet", "check", "forget", "hint", "predict", "progress", "reset", "solution"]
