"""Does a pipeline give what its net gives on one device: the output, and the gradients?

The truth is computed in NumPy: the judge loads no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.exercises.case import Sign, Signs
from gpipe_edu.exercises.networks import Array, Truth, gradients, one_device
from gpipe_edu.words import join_words, percent, with_article

from .calls import Calls


@dataclass(frozen=True)
class Pipeline:
    """How one was made, and of which layers."""

    layers: Sequence[ref.Layer]
    balance: list[int]
    M: int
    checkpoint: str = "never"

    @property
    def call(self) -> str:
        """How it was made, in code."""
        return f'MyGPipe(net, {self.balance}, M={self.M}, checkpoint="{self.checkpoint}")'

    @cached_property
    def stage_of(self) -> list[int]:
        """For every weight and bias the stage it is on."""
        ends = list(accumulate(self.balance))
        places = [place for place, layer in enumerate(self.layers) for _ in layer.params]
        return [next(k for k, end in enumerate(ends) if place < end) for place in places]


@dataclass(frozen=True)
class Step:
    """One mini-batch that went through a pipeline, see `watching.perform`; before: what the gradients were then."""

    pipeline: Pipeline
    x: Array
    y: Array
    before: Sequence[Array]
    grads: Sequence[Array | None]
    held: int
    bad: str
    several: int = 0
    output: Any = None
    has_graph: bool = False
    calls: Sequence[Any] = ()
    dx: Array | None = None
    changed: bool = False

    @cached_property
    def truth(self) -> Truth:
        """What one device gives."""
        flat = self.x.reshape(-1, self.x.shape[-1])
        truth = one_device(self.pipeline.layers, flat, self.y)
        return truth._replace(output=truth.output.reshape(*self.x.shape[:-1], -1))

    @cached_property
    def read(self) -> Calls:
        """The calls of the layers."""
        return Calls(self.calls, self.pipeline.balance, len(self.x), self.pipeline.M)

    @property
    def expected_grads(self) -> list[Array]:
        """Gradients add up."""
        return [old + more for old, more in zip(self.before, self.truth.grads, strict=True)]

    @property
    def empty(self) -> list[int]:
        """The stages that have a weight without gradient."""
        pairs = zip(self.pipeline.stage_of, self.grads, strict=True)
        return sorted({k for k, part in pairs if part is None or not np.any(part)})


def about_the_form(step: Step) -> Signs:
    """Is the output a tensor of the right shape?"""
    shape = step.truth.output.shape
    wanted = f"a tensor of shape {shape}"
    yield Sign("no-return", step.bad == "NoneType", wanted, "None")
    yield Sign("not-joined", step.several > 0, wanted, f"{with_article(step.bad)} of {step.several}")
    yield Sign("no-tensor", bool(step.bad), wanted, with_article(step.bad))
    found = step.output.shape
    told = (f"shape {shape}", f"shape {found}")
    yield Sign("more-rows", found[1:] == shape[1:] and found[0] > shape[0], *told)
    yield Sign("fewer-rows", found[1:] == shape[1:] and found[0] < shape[0], *told)
    yield Sign("other-shape", found != shape, *told)


def about_the_output(step: Step) -> Signs:
    """Is it that of one device, and is the mini-batch what it was?"""
    if ref.gradient_difference([step.output], [step.truth.output]) > 1e-9:
        ours, theirs = (np.sort(output, axis=0) for output in (step.output, step.truth.output))
        same = np.allclose(ours, theirs, rtol=0, atol=1e-9)
        yield Sign("other-order", same, "row i belongs to sample i", "rows in another order")
        yield Sign("other-output", True, "net(x)", "other values")
    yield Sign("x-changed", step.changed)


def about_gradients(step: Step) -> Signs:
    """Of all weights, and of x if it wants one."""
    yield Sign("no-graph", not step.has_graph, "an output with a graph", "requires_grad=False")
    error = ref.gradient_difference(step.grads, step.expected_grads)
    if not error < 1e-9:
        came = f"gradients that are off by {percent(error)}" if np.isfinite(error) else "some gradients are missing"
        for sign in _blame(step):
            yield sign._replace(expected="the gradients of one device", came=sign.came or came)


def _blame(step: Step) -> Signs:
    """What explains gradients that are not those of one device."""
    exact, never, empty = step.truth.grads, step.pipeline.checkpoint == "never", step.empty
    second = any(np.any(old) for old in step.before)
    again = ref.gradient_difference(step.grads, exact) < 1e-9
    yield Sign("replaced", second and (again or bool(empty and never)))
    yield Sign("no-gradients", set(empty) == set(step.pipeline.stage_of), came="none")
    none = f"none on stage {join_words(empty)}"
    yield Sign("detached", bool(empty) and never, came=none)
    yield Sign("reentrant", bool(empty), came=none)
    found = [part - old for part, old in zip(step.grads, step.before, strict=True) if part is not None]
    for m, share in enumerate(_shares(step)):
        only = any(ref.gradient_difference([a], [b]) < 1e-9 for a, b in zip(found, share, strict=True))
        yield Sign("one-micro-batch" if never else "reentrant", only, came=f"only that of micro-batch {m}")
    ratio = float(np.sum(found[-1] * exact[-1]) / np.sum(exact[-1] ** 2))
    scaled = bool(ratio) and ref.gradient_difference([part / ratio for part in found], exact) < 1e-9
    yield Sign("scaled", scaled, came=f"{ratio:.3g} times that")
    yield Sign("other-gradient")


def _shares(step: Step) -> list[list[Array]]:
    """What each micro-batch adds to the gradients, if there are several."""
    pieces = [(x, y) for x, y in split_batch((step.x, step.y), step.pipeline.M) if len(x)]
    if len(pieces) == 1:
        return []
    layers, N = step.pipeline.layers, len(step.x)
    return [[len(x) / N * part for part in gradients(layers, x, y)] for x, y in pieces]
