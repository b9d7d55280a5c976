"""Small real data, shipped with its licence (README.md beside this file), so that no lesson needs a download."""

from .digits import Digits, digits, minibatches
from .novel import Text, text, windows

__all__ = ["Digits", "Text", "digits", "minibatches", "text", "windows"]
