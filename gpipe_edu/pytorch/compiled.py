"""torch.compile, of layers and of what is around a pipe.

Layers are compiled when they first see a shape, in the calling thread. Meanwhile PyTorch reports to all threads of the
process that code is being compiled, and code may ask. So a step that may compile runs on one worker alone, one op after
another; on a worker, because code is compiled for a thread's number of BLAS threads. Later steps run the compiled code
on all workers.

A pipe itself runs uncompiled, between the compiled parts: a compiler traces one thread; a pipe hands its work to
others, and meanwhile holds tensors of its own in the place of weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch
from torch import nn

from .values import Value, tensors

_P = ParamSpec("_P")
_T = TypeVar("_T")

_WHY = (
    "a GPipe runs its stages on threads, where no compiler can follow; leave fullgraph=True out, compile the layers, "
    "or use them without the pipe: nn.Sequential(*pipe.children())"
)


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


def outside_of_graphs(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`function`, left alone by PyTorch's compiler with all that it calls: one graph ends before it, one begins after.

    torch.compiler.disable as a decorator would do too, but loads the compiler at once, which takes about a second. It
    is used here only if the compiler is already loaded; otherwise nothing can be tracing.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if torch.compiler.is_dynamo_compiling():
            torch._dynamo.graph_break(msg=_WHY)  # the message that fullgraph=True, which allows no break, then shows
        outside: Callable[_P, _T] = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
        return outside(*args, **kwargs)

    return call
