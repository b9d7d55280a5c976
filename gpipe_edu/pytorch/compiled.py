"""Layers under torch.compile, which compiles when it first sees a shape, in the calling thread.

Meanwhile PyTorch reports to all threads of the process that code is being compiled, and code may ask. So a step that
may compile runs on one worker alone, one op after another; on a worker, because code is compiled for a thread's number
of BLAS threads. Later steps run the compiled code on all workers.
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
    """What compiled code depends on: shapes and types of micro-batches, and whether they need a gradient."""
    return frozenset(tuple((part.shape, part.dtype, part.requires_grad) for part in tensors(piece)) for piece in pieces)
