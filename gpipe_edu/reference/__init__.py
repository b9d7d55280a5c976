"""The NumPy engine: a whole pipeline that can be read in an hour. Start with pipeline.py, then stage.py.

It runs one op at a time. Its timeline is therefore *replayed*: durations are measured one by one, then laid out as if
every device ran by itself. Only an engine whose devices really run at once may call a timeline *measured*.

Layers keep no state between calls (`layers.py`), so re-materialization simply means not keeping `saved`, and dropout's
mask is a function of seed, step and sample number.
"""

from .layers import BatchNorm, Dropout, Layer, LayerNorm, Linear, ReLU, Tanh, mlp
from .losses import cross_entropy, mse
from .pipeline import MemoryEntry, Result, train_pipeline
from .sequential import SGD, accumulate_grads, gradient_difference, predict, train_sequential
from .stage import Stage
from .stale import train_without_flush

__all__ = [
    "SGD",
    "BatchNorm",
    "Dropout",
    "Layer",
    "LayerNorm",
    "Linear",
    "MemoryEntry",
    "ReLU",
    "Result",
    "Stage",
    "Tanh",
    "accumulate_grads",
    "cross_entropy",
    "gradient_difference",
    "mlp",
    "mse",
    "predict",
    "train_pipeline",
    "train_sequential",
    "train_without_flush",
]
