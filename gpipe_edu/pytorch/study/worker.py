"""The worker of a stage that lesson 06 lets the learner complete; the lesson goes on with it until theirs is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queue import SimpleQueue

    from torch import Tensor, nn

    Tensors = SimpleQueue[Tensor]


def stage_worker(
    layers: nn.Module, M: int, values: Tensors, results: Tensors, gradients: Tensors, input_gradients: Tensors
) -> None:
    """Run one stage for M micro-batches, F-then-B (GPipe, arXiv 1811.06965, section 2.2, without its recompute).

    values, results: what the previous stage computed, and what goes on to the next one, [n_m samples, ...] each.
    gradients, input_gradients: those of results, as they come back, the last micro-batch first, and those of values.
    """
    held = []
    for _ in range(M):
        start = values.get().detach().requires_grad_()
        held.append((start, layers(start)))
        results.put(held[-1][1])
    for start, result in reversed(held):
        result.backward(gradients.get())
        input_gradients.put(start.grad)
