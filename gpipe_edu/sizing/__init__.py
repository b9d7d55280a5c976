"""The sizing guide: how many replicas, stages and micro-batches, and what to recompute, planned on paper.

`model.py` counts what layers cost, `machine.py` is the devices and their links, `plan.py` one way to divide the work,
`guide.py` the search; a plan is simulated only if its lower bound says that it may win. `presets.toml` has machines and
models with their sources.
"""

from .guide import WAYS, Guide, duration, guide, size
from .machine import Machine
from .model import LayerSize, Model, mlp, transformer
from .plan import STATES, BytesPerParameter, Job, Plan

__all__ = [
    "STATES",
    "WAYS",
    "BytesPerParameter",
    "Guide",
    "Job",
    "LayerSize",
    "Machine",
    "Model",
    "Plan",
    "duration",
    "guide",
    "mlp",
    "size",
    "transformer",
]
