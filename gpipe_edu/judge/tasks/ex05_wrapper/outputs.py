"""Does a pipeline give what its net gives on one device: the output, and the gradients?

The truth is computed in NumPy: the judge loads no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.base.words import join_words, percent, with_article
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.guest.networks import Array, layer_of
from gpipe_edu.judge.networks import Truth, gradients, one_device
from gpipe_edu.judge.tasks.ex05_wrapper.perform import DEFAULT, PipelineQuestion, StepAnswer

from .calls import Call, LayerCalls


class PipelineTask(PipelineQuestion):
    """A question in the judge's words."""

    __slots__ = ()

    @property
    def call(self) -> str:
        """How it is built, in code."""
        how = "" if self.checkpoint == DEFAULT else f', checkpoint="{self.checkpoint}"'
        return f"MyGPipe(net, {self.balance}, M={self.M}{how})"

    @property
    def layers(self) -> list[ref.Layer]:
        """The network, newly built; a Dropout lets everything pass."""
        return list(map(layer_of, self.items))

    @property
    def stage_of(self) -> list[int]:
        """For every weight and bias the stage it is on."""
        ends = list(accumulate(self.balance))
        places = [place for place, layer in enumerate(self.layers) for _ in layer.params]
        return [next(k for k, end in enumerate(ends) if place < end) for place in places]


@dataclass(frozen=True)
class PipelineStep:
    """One mini-batch that went through a pipeline; calls: of its layers; before: what the gradients were then."""

    asked: PipelineTask
    came: StepAnswer
    calls: Sequence[Call]
    x: Array
    y: Array
    before: Sequence[Array] = ()

    @cached_property
    def truth(self) -> Truth:
        """What one device gives."""
        flat = self.x.reshape(-1, self.x.shape[-1])
        truth = one_device(self.asked.layers, flat, self.y)
        return truth._replace(output=truth.output.reshape(*self.x.shape[:-1], -1))

    @cached_property
    def read(self) -> LayerCalls:
        """The calls of the layers."""
        return LayerCalls(self.calls, self.asked.balance, len(self.x), self.asked.M)

    @property
    def expected_grads(self) -> list[Array]:
        """Gradients add up."""
        return [old + more for old, more in zip(self.before, self.truth.grads, strict=True)]

    @property
    def empty(self) -> list[int]:
        """The stages that have a weight without gradient."""
        pairs = zip(self.asked.stage_of, self.came.grads, strict=True)
        return sorted({k for k, part in pairs if part is None or not np.any(part)})


def about_the_form(step: PipelineStep) -> Signs:
    """Is the output a tensor of the right shape?"""
    shape = step.truth.output.shape
    wanted = f"a tensor of shape {shape}"
    bad, several = step.came.bad, step.came.several
    yield Sign("no-return", bad == "NoneType", wanted, "None")
    yield Sign("not-joined", several > 0, wanted, f"{with_article(bad)} of {several}")
    yield Sign("no-tensor", bool(bad), wanted, with_article(bad))
    yield Sign("grad-mode", not step.came.grad_mode_kept)
    found = step.came.output.shape
    ran = {call.layer for call in step.calls if call.kind == "F"}
    left_out = found != shape and not step.asked.shared and len(ran) < len(step.asked.items)
    yield Sign("stages-left-out", left_out, f"{len(step.asked.items)} layers run", f"{len(ran)} layers")
    both = (f"shape {shape}", f"shape {found}")
    yield Sign("more-rows", found[1:] == shape[1:] and found[0] > shape[0], *both)
    yield Sign("fewer-rows", found[1:] == shape[1:] and found[0] < shape[0], *both)
    squeezed = found != shape and found == tuple(size for size in shape if size > 1)
    yield Sign("squeezed", squeezed, *both)
    yield Sign("other-shape", found != shape, *both)


def about_the_output(step: PipelineStep) -> Signs:
    """Is it that of one device, and is the mini-batch what it was?"""
    mine, exact = step.came.output, step.truth.output
    if ref.gradient_difference([mine], [exact]) > 1e-9:
        ours, theirs = (np.sort(output, axis=0) for output in (mine, exact))
        same = np.allclose(ours, theirs, rtol=0, atol=1e-9)
        yield Sign("other-order", same, "row i belongs to sample i", "rows in another order")
        yield Sign("other-output", True, "net(x)", "other values")
    yield Sign("x-changed", step.came.changed)


def about_gradients(step: PipelineStep) -> Signs:
    """Of all weights, and of x if it wants one."""
    yield Sign("no-graph", not step.came.has_graph, "an output with a graph", "requires_grad=False")
    error = ref.gradient_difference(step.came.grads, step.expected_grads)
    if not error < 1e-9:
        came = f"gradients that are off by {percent(error)}" if np.isfinite(error) else "some gradients are missing"
        for sign in _blame(step):
            yield sign._replace(expected="the gradients of one device", came=sign.came or came)


def _blame(step: PipelineStep) -> Signs:
    """What explains gradients that are not those of one device."""
    exact, never, empty = step.truth.grads, step.asked.checkpoint == "never", step.empty
    second = any(np.any(old) for old in step.before)
    again = ref.gradient_difference(step.came.grads, exact) < 1e-9
    yield Sign("replaced", second and (again or bool(empty and never)))
    if second and again:
        return
    yield Sign("no-gradients", set(empty) == set(step.asked.stage_of), came="none")
    none = f"none on stage {join_words(empty)}"
    yield Sign("detached", bool(empty) and never, came=none)
    yield Sign("reentrant", bool(empty), came=none)
    found = [part - old for part, old in zip(step.came.grads, step.before, strict=True) if part is not None]
    for m, share in enumerate(_shares(step)):
        only = any(ref.gradient_difference([a], [b]) < 1e-9 for a, b in zip(found, share, strict=True))
        yield Sign("one-micro-batch" if never else "reentrant", only, came=f"only that of micro-batch {m}")
    ratio = float(np.sum(found[-1] * exact[-1]) / np.sum(exact[-1] ** 2))
    scaled = bool(ratio) and ref.gradient_difference([part / ratio for part in found], exact) < 1e-9
    yield Sign("scaled", scaled, came=f"{ratio:.3g} times that")
    yield Sign("other-gradient")


def _shares(step: PipelineStep) -> list[list[Array]]:
    """What each micro-batch adds to the gradients, if there are several."""
    pieces = [(x, y) for x, y in split_batch((step.x, step.y), step.asked.M) if len(x)]
    if len(pieces) == 1:
        return []
    layers, N = step.asked.layers, len(step.x)
    return [[len(x) / N * part for part in gradients(layers, x, y)] for x, y in pieces]
