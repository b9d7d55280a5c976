"""The sizing guide: how many replicas, stages and micro-batches, and what to recompute, planned on paper."""

from .guide import WAYS, Guide, duration, guide, size
from .machine import Machine
from .model import LayerSize, Model, mlp, transformer
from .plan import STATES, Job, Plan, State

__all__ = [
    "STATES",
    "WAYS",
    "Guide",
    "Job",
    "LayerSize",
    "Machine",
    "Model",
    "Plan",
    "State",
    "duration",
    "guide",
    "mlp",
    "size",
    "transformer",
]
