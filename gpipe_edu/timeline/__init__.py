"""Timelines: when each op ran, or is planned to run, and the figures that follow from it."""

from . import formulas
from .calibrate import calibrate
from .costs import Costs
from .diagram import contradictions, read_diagram
from .memory import peak_memory
from .profiled import read_profiles
from .simulate import replay, simulate, undisturbed
from .single_thread import handed_out
from .timeline import Message, Span, Timeline

__all__ = [
    "Costs",
    "Message",
    "Span",
    "Timeline",
    "calibrate",
    "contradictions",
    "formulas",
    "handed_out",
    "peak_memory",
    "read_diagram",
    "read_profiles",
    "replay",
    "simulate",
    "undisturbed",
]
