"""Layers under torch.compile, which compiles when it first meets a shape, in the thread that calls.

While it does, PyTorch tells the whole process, all threads, that code is being compiled, and code may ask. So a step
that may compile runs on one worker alone, one op after another; a worker, because what is compiled is compiled for a
thread's number of BLAS threads. Later steps run what is there on all workers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from torch import nn

from .values import Value, tensors


def is_compiled(layer: nn.Module) -> bool:
    """Whether torch.compile has wrapped `layer`, or something that it or a module in it holds."""
    return any(
        module._compiled_call_impl is not None
        or any(
            hasattr(thing, "_torchdynamo_orig_callable") for thing in (module, module.forward, *vars(module).values())
        )
        for module in layer.modules()
    )


def forms(pieces: Iterable[Value]) -> Hashable:
    """What code is compiled for: the shapes and types of micro-batches, and whether they need a gradient."""
    return frozenset(tuple((part.shape, part.dtype, part.requires_grad) for part in tensors(piece)) for piece in pieces)
