"""One process per device, on any number of machines: PyTorch's engine for that, driven by schedules of ours."""

from .pipeline import Pipeline

__all__ = ["Pipeline"]
