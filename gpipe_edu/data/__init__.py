"""Small real data, shipped with its licence (README.md beside this file), so that no lesson needs a download."""

from .digits import Digits, digits, minibatches

__all__ = ["Digits", "digits", "minibatches"]
