"""A pipe under torch.compile, or in a compiled function: it runs uncompiled, between the compiled parts.

A compiler traces one thread; a pipe hands its work to others, and meanwhile holds tensors of its own in the place of
weights. Its layers may be compiled (compiled.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_T = TypeVar("_T")


def outside_of_graphs(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """`function`, left alone by PyTorch's compiler with all that it calls: one graph ends before it, one begins behind.

    torch.compiler.disable as a decorator would do, but loads the compiler at once, which takes about a second. Here it
    is used only if the compiler is already loaded; otherwise nothing can be tracing.
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


_WHY = (
    "a GPipe runs its stages on threads, where no compiler can follow; leave fullgraph=True out, compile the layers, "
    "or use them without the pipe: nn.Sequential(*pipe.children())"
)
