"""Timelines: when each op ran, or is planned to run, and the figures that follow from it."""

from . import formulas
from .calibrate import calibrate
from .costs import Costs
from .simulate import replay, simulate
from .timeline import Span, Timeline

__all__ = ["Costs", "Span", "Timeline", "calibrate", "formulas", "replay", "simulate"]
