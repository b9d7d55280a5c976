"""The sizing guide: which K, M and checkpoint mode, planned from a model and a machine on paper."""

from .guide import Guide, duration, guide, size
from .model import LayerSize, Model, mlp, transformer
from .plan import Job, Machine, Plan

__all__ = ["Guide", "Job", "LayerSize", "Machine", "Model", "Plan", "duration", "guide", "mlp", "size", "transformer"]
