"""What makes a package a course: predictions before a surprise, what a learner has done, the environment check."""

from .predict import forget, predict

__all__ = ["forget", "predict"]
