"""What is wrong with a function that a lesson lets a learner type, in a sentence; "" if nothing is.

Here are the worker of lesson 06 and the two peaks of lesson 05. They are called, and compared with something that is
computed in another way: the worker with autograd on the uncut graph, the peaks with a simulated step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Final

from gpipe_edu.schedule import gpipe
from gpipe_edu.timeline import peak_memory, simulate

_SIZES: Final = ((1024, 32, 4, 8), (360, 24, 3, 5), (64, 8, 2, 16))
"""N, L, K and M, chosen so that no two slips give the same number everywhere."""
_OPEN: Final = "there is still a `...` in it"


class _Stuck(Exception):
    """The worker asked a queue for what never comes."""


class _Incoming:
    """A queue that is filled before the worker runs, which need not wait; where it would wait forever, it is told."""

    def __init__(self, name: str, items: list[Any], ready: Callable[[], bool]) -> None:
        self.name, self.items, self.ready = name, items, ready

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self.items:
            raise _Stuck(f"it asks `{self.name}` for more than M micro-batches, and waits for ever")
        if not self.ready():
            raise _Stuck(f"it asks `{self.name}` before all results have gone on, and waits for ever")
        return self.items.pop(0)


class _Outgoing(list[Any]):
    """A queue that keeps what is put into it."""

    def put(self, item: Any) -> None:
        self.append(item)


def slip_of_worker(worker: object) -> str:
    """What is wrong with a worker of one stage, F-then-B (lesson 06). Raises TypeError for what is not a function."""
    if not callable(worker):
        raise TypeError(f"answer is {worker!r}; it must be a function, such as stage_worker")
    import torch

    M, dice = 3, torch.Generator().manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh()).double()
    front = torch.ones(4, dtype=torch.float64, requires_grad=True)
    given = torch.randn(M, 2, 4, dtype=torch.float64, generator=dice)
    back = torch.randn(M, 2, 3, dtype=torch.float64, generator=dice)
    weights, inputs = [*layers.parameters()], [piece.clone().requires_grad_() for piece in given]
    wanted = torch.autograd.grad([layers(piece) for piece in inputs], [*weights, *inputs], [*back])

    def watched(x: object) -> Any:
        if not isinstance(x, torch.Tensor):
            raise _Stuck(
                f"the layers get `{'...' if x is ... else repr(x)}`, and need what came from the stage in front"
            )
        return layers(x)

    results, sent = _Outgoing(), _Outgoing()
    values = _Incoming("values", [piece * front for piece in given], lambda: True)
    gradients = _Incoming("gradients", [*back.flip(0)], lambda: len(results) == M)
    try:
        with warnings.catch_warnings(action="ignore"):  # about a `.grad` that stays empty: we report that ourselves
            worker(watched, M, values, results, gradients, sent)
    except _Stuck as stuck:
        return f"The worker stops: {stuck}."
    except Exception as error:
        return f"The worker stops with {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if len(results) != M or not all(isinstance(result, torch.Tensor) for result in results):
        return f"Of {M} micro-batches {len(results)} results went on: each has to be put into `results`, as a tensor."
    if not all(torch.equal(result, layers(piece)) for result, piece in zip(results, given, strict=True)):
        return "What went on is not what the layers make of each micro-batch, in their order."
    if front.grad is not None:
        return "The backward ran on into the stage in front: cut the graph where a value comes in, with `detach`."
    if gradients.items:
        return f"{len(gradients.items)} of {M} gradients were not taken: each starts the backward of one result."
    if len(sent) != M:
        return f"Of {M} micro-batches {len(sent)} input gradients were sent: the stage in front waits for ever."
    if not all(isinstance(gradient, torch.Tensor) for gradient in sent):
        return f"`{sent[0]}` was sent to the front: a start collects a gradient after `requires_grad_()`, in `.grad`."
    if not all(torch.allclose(*pair) for pair in zip(sent, wanted[:1:-1], strict=True)):
        return "The input gradients are not the same as on one device, the last micro-batch first."
    if any(w.grad is None or not torch.allclose(w.grad, right) for w, right in zip(weights, wanted, strict=False)):
        return "The gradients of the weights are not the same as on one device."
    return ""


def slip_of_peaks(answer: object) -> str:
    """What is wrong with two peaks as functions of N, L, K and M: all is kept, and re-materialized. See lesson 05.

    Raises TypeError for what is not a pair of functions.
    """
    if not isinstance(answer, (list, tuple)) or len(answer) != 2 or not all(map(callable, answer)):
        raise TypeError(f"answer is {answer!r}; it must be two functions, such as [all_kept, rematerialized]")
    for name, recompute, typed in zip(("all is kept", "re-materialized"), (None, "early"), answer, strict=True):
        for N, L, K, M in _SIZES:
            found = typed(N, L, K, M)
            if found is ...:
                return f"Where {name}, {_OPEN}."
            if isinstance(found, bool) or not isinstance(found, Real):
                return f"Where {name}, it returns {found!r}, which is no number."
            plan = simulate(gpipe(K, M, recompute))
            right = max(peak_memory(plan, boundary=N / M, interior=L / K * N / M))
            if not math.isclose(found, right, rel_tol=1e-9):
                why = _why(found, N, L, K, M, recompute is None)
                asked = f"with N = {N}, L = {L}, K = {K}, M = {M}"
                return f"Where {name}, a device holds {right:g} samples {asked}; yours says {found:g}. {why}"
    return ""


def _why(found: Real, N: int, L: int, K: int, M: int, kept: bool) -> str:
    interior = L * N / K if kept else L * N / K / M
    slips = {
        interior: "The boundary inputs are missing.",
        N / M + interior: "The boundary inputs of all M micro-batches stay, not of one.",
        N + interior * K: "A device has L/K of the layers, not all.",
        N + L * N / K: "Only one interior stands at a time: that of N/M samples.",
        N + L * N / K / M: "All M interiors are there.",
    }
    return next((words for number, words in slips.items() if math.isclose(found, number)), "")
