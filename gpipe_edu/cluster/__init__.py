"""One process per device, on any number of machines: PyTorch's engine for that, driven by schedules of ours."""

from .lowering import lower
from .pipeline import Pipeline
from .ranks import Ranks, RanksError

__all__ = ["Pipeline", "Ranks", "RanksError", "lower"]
