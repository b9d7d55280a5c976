"""Training steps of a learner's, watched: what went through the network, and when its activations were let go.

The layers write down each forward, and their output each gradient that comes back for it. A forward before the last
one's gradient means that the activations of both are in memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.course.judging import SLIPS
from gpipe_edu.course.task import Blame

from .networks import Array, Item, as_numpy, in_torch


class Step(NamedTuple):
    """What one call did. trace: (kind, samples) for each forward of the network, "F", or "N" if without autograd,
    and "B" for each gradient of its output.

    weights: after the step. updates: calls of `optimizer.step()`. modes: whether every layer was in training mode, at
    each forward and at the end. kept: whether x and y are as they were.
    """

    loss: Any
    weights: list[Array]
    trace: list[tuple[str, int]]
    updates: int
    modes: list[bool]
    kept: bool

    @property
    def sizes(self) -> list[int]:
        """Samples of each forward; pieces without any don't count."""
        return [size for kind, size in self.trace if kind in "FN" and size]

    @property
    def forwards(self) -> list[int]:
        """Samples of those forwards that keep activations."""
        return [size for kind, size in self.trace if kind == "F" and size]


def perform(train_step: Any, items: list[Item], batches: Any, M: int, rate: float, leftover: Any) -> Any:
    """Some steps of SGD in PyTorch."""
    import torch

    net, loss_fn = in_torch(items), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.5)
    if leftover is not None:
        loss_fn(net(torch.from_numpy(leftover[0])), torch.from_numpy(leftover[1])).backward()
    trace: list[tuple[str, int]] = []
    updates: list[int] = []
    modes: list[bool] = []

    def in_training() -> bool:
        return all(module.training for module in net.modules())

    def arrives(module: Any, inputs: Any) -> None:
        trace.append(("F" if torch.is_grad_enabled() else "N", len(inputs[0])))
        modes.append(in_training())

    def leaves(module: Any, inputs: Any, output: Any) -> None:
        if output.requires_grad:
            output.register_hook(lambda gradient: trace.append(("B", len(gradient))))

    net[0].register_forward_pre_hook(arrives)  # of the layers, so that a loop over them is seen, too
    net[-1].register_forward_hook(leaves)
    optimizer.register_step_post_hook(lambda *_: updates.append(1))
    steps = []
    for x, y in batches:
        for seen in (trace, updates, modes):
            seen.clear()
        given = torch.from_numpy(x.copy()), torch.from_numpy(y.copy())
        loss = train_step(net, loss_fn, optimizer, *given, M)
        loss = loss.item() if isinstance(loss, torch.Tensor) and loss.numel() == 1 else loss
        kept = all(np.array_equal(tensor.detach().numpy(), was) for tensor, was in zip(given, (x, y), strict=True))
        weights = [weight for parameter in net.parameters() if (weight := as_numpy(parameter)) is not None]
        steps.append(Step(loss, weights, list(trace), len(updates), [*modes, in_training()], kept))
    return steps


def judge_form(N: int, M: int, step: Step, wrong: Blame) -> None:
    """Raise Wrong for a step that is none, or not in micro-batches, before any number is looked at."""
    updates, sizes = step.updates, step.sizes
    if updates == 0:
        because = "Nobody called `optimizer.step()`, which updates the weights, and its own momentum with them."
        raise wrong("no-step", because, "1 call of optimizer.step()", "none")
    if updates > 1:
        because = (
            "The optimizer stepped more than once. Micro-batches share one set of weights; after an update in between, "
            "the later ones would train another model than the earlier ones."
        )
        raise wrong("step-inside", because, "1 call of optimizer.step()", f"{updates} calls")
    largest = -(-N // M)
    if max(sizes, default=0) > largest:
        because = "The network got more samples at once than a micro-batch has. Small pieces are what saves the memory."
        raise wrong("not-cut", because, f"at most {largest} samples at once", f"{max(sizes)}")
    forwards = len(step.forwards)
    if forwards > M:
        because = (
            "The network got more pieces than there are micro-batches. M says how many: smaller pieces use a device "
            "less well, and each costs a call."
        )
        raise wrong("too-fine", because, f"at most M = {M} forwards", f"{forwards}")
    if sum(sizes) < N:
        because = "Not every sample went through the network."
        raise wrong("lost", because, f"{N} samples in all", f"{sum(sizes)}")
    _judge_memory(step, wrong)
    if not all(step.modes):
        because = (
            "The network was switched to evaluation, where dropout and BatchNorm do something else. A training step "
            "leaves the mode as it is."
        )
        raise wrong("eval-mode", because, "training mode", "evaluation mode")
    if not step.kept:
        raise wrong("input-changed", "An input was changed: x and y belong to the caller, who may use them again.")
    if step.loss is None:
        raise wrong("no-return", SLIPS["no-return"], "a number", "None")
    if not isinstance(step.loss, int | float | np.number):
        because = "The function gives back the mini-batch's loss, a number."
        raise wrong("no-loss", because, "a number", repr(step.loss)[:60])


def _judge_memory(step: Step, wrong: Blame) -> None:
    """No forward while the activations of an earlier piece still wait for their backward."""
    kinds = "".join(kind for kind, size in step.trace if size and kind != "N")
    if "B" in kinds and "FF" in kinds.rstrip("F"):
        waiting = max(map(len, kinds.split("B")))
        because = (
            "The memory is that of the whole mini-batch: forwards run while the activations of earlier pieces still "
            "wait for their backward. Let each piece go forward and back before the next one starts."
        )
        raise wrong("all-at-once", because, "the activations of 1 piece at a time", f"those of {waiting} pieces")
