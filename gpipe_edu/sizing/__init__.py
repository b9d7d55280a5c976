"""The sizing guide: which K, M and checkpoint mode, planned from a model and a machine on paper."""

from .guide import Guide, duration, guide, size
from .layers import Layer, Model, mlp, transformer
from .plan import Job, Machine, Plan

__all__ = ["Guide", "Job", "Layer", "Machine", "Model", "Plan", "duration", "guide", "mlp", "size", "transformer"]
