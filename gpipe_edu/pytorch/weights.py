"""The weights of one step: as a stage's graph starts at detached inputs, it ends at detached weights.

While workers run, the layers hold tensors of the step's own that share the weights' memory. What the micro-batches add
up there reaches the user's weights once, through one node of the user's graph, and so:
- a step that fails has touched no `.grad`, and hooks on weights are called once per backward, with the whole gradient;
- autograd asks for what it needs: `torch.autograd.grad` and `backward(inputs=...)` fill no other `.grad`;
- a recompute sees the weights that its forward saw, even if the layers hold others by then (`functional_call`);
- 16-bit weights add up in fp32 and round once: bf16 has 8 binary digits, so that a sum 256 times as large as what comes
  next no longer grows (benchmarks/gradient_error.py). While a step runs that is 4 bytes per weight, instead of 2.

A weight that several stages hold has a tensor in each of them, on the stage's device: their backwards run at the same
time, and what they have added up is added up at the end, in the order of the stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from . import torch_private
from .guards import same_parameters, unchanged
from .ledger import bytes_of


class Weights:
    """The weights that `layers`, one module per stage, hold now; `given`: those that require a gradient, each once.

    devices: those of the stages, where not all weights are where their stage runs. accumulate_in_fp32: whether
    gradients of 16-bit weights are added up in fp32.
    """

    def __init__(
        self,
        layers: Iterable[nn.Module],
        devices: Iterable[torch.device | None] = repeat(None),
        *,
        accumulate_in_fp32: bool = True,
    ) -> None:
        ours: dict[tuple[int, int], Tensor] = {}
        places: dict[int, int] = {}  # in `given`, by identity
        self.given: list[Tensor] = []
        self._ours: list[Tensor] = []
        self._places: list[int] = []
        """For each of `_ours` the weight among `given` that it stands for."""
        self._slots: list[tuple[nn.Module, str, Tensor]] = []
        seen: set[nn.Module] = set()  # one layer in two stages has one set of tensors
        for stage, (layer, device) in enumerate(zip(layers, devices, strict=False)):
            for module, name, weight in _held(layer, seen):
                key = id(weight), stage
                if key not in ours:
                    ours[key] = stand_in(weight, device)
                    if weight.requires_grad:
                        if id(weight) not in places:
                            places[id(weight)] = len(self.given)
                            self.given.append(weight)
                        self._ours.append(ours[key])
                        self._places.append(places[id(weight)])
                self._slots.append((module, name, ours[key]))
        if accumulate_in_fp32:
            for narrow in (own for own in self._ours if own.dtype in (torch.bfloat16, torch.float16)):
                narrow.grad_dtype = torch.float32
        self._all = [weight for weight in ours.values() if not weight.is_inference()]
        self._versions = [weight._version for weight in self._all]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Around all that runs layers: they hold the step's own tensors."""
        theirs = [(module, name, module._parameters[name]) for module, name, _ in self._slots]
        _hold(self._slots)
        try:
            yield
            same_parameters(self._slots)
        finally:
            _hold(theirs)

    def gradients(self) -> list[Tensor | None]:
        """For each of `given` the step's gradient; to be called once, so that autograd need not copy it.

        It has the type in which it was added up: autograd, which gets it, rounds it to that of the weight's `.grad`.
        """
        found: list[Tensor | None] = [None for _ in self.given]
        for place, weight in zip(self._places, self._ours, strict=True):
            share = weight.grad
            found[place] = add(found[place], None if share is None else share.to(self.given[place].device))
        self.let_go()
        return found

    def gradient_bytes(self, layers: Iterable[nn.Module]) -> int:
        """The bytes of what the step has added up for the weights in some of the layers."""
        modules = {module for layer in layers for module in layer.modules()}
        found = {id(ours): ours.grad for module, _, ours in self._slots if module in modules}
        return sum(bytes_of(gradient) for gradient in found.values() if gradient is not None)

    def let_go(self) -> None:
        """Drop what the step has added up."""
        for weight in self._ours:
            weight.grad = None

    def check_unchanged(self) -> None:
        """Raises RuntimeError if a weight was changed in place since the forward, and a recompute would differ."""
        unchanged(self._versions, [weight._version for weight in self._all], "a weight")


def move_layers(stages: Sequence[tuple[Sequence[nn.Module], torch.device]]) -> None:
    """Move the layers of each stage to its device, and a weight of several stages to that of the first. It stays one
    weight: for some kinds of devices PyTorch would make a new parameter wherever a layer holds it."""
    slots: dict[int, list[tuple[nn.Module, str]]] = {}
    for layers, _ in stages:
        for module, name, weight in _held(nn.ModuleList(layers), set()):
            slots.setdefault(id(weight), []).append((module, name))
    for layers, device in reversed(stages):
        for layer in layers:
            layer.to(device)
    for (first, name), *others in slots.values():
        _hold([(module, own, first._parameters[name]) for module, own in others])


def add(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """The sum of two gradients, of which either may be missing."""
    if one is None or other is None:
        return other if one is None else one
    return other + one if one.is_sparse else one + other  # PyTorch adds a sparse one to a dense one, not the reverse


def stand_in(weight: Tensor, device: torch.device | None = None, *, copied: bool = False) -> Tensor:
    """A leaf of the same class, with the same attributes, and the same memory where `device` is that of `weight`,
    unless it is to be `copied`."""
    ours = weight.detach()
    if device is not None:
        ours = ours.to(device)
    if copied:
        ours = ours.clone()
    # Layers may check the class of a parameter, and read attributes that were set on it.
    if type(weight) is not type(ours):
        ours = torch_private.make_subclass(type(weight), ours, weight.requires_grad)
    ours.__dict__.update(weight.__dict__)
    return ours.requires_grad_(weight.requires_grad)


def has_hooks(weight: Tensor) -> bool:
    """Whether something is to be called when `weight` gets its gradient."""
    return bool(weight._backward_hooks or weight._post_accumulate_grad_hooks)


def _held(layer: nn.Module, seen: set[nn.Module]) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """The weights of the modules in `layer` that were not seen before, with their names there."""
    for module in layer.modules():
        if module not in seen:
            seen.add(module)
            for name, weight in module._parameters.items():
                # A lazy layer's weight has no memory before its first forward.
                if weight is not None and not is_lazy(weight):
                    yield module, name, weight


def _hold(slots: Sequence[tuple[nn.Module, str, Any]]) -> None:
    for module, name, weight in slots:
        module._parameters[name] = weight
        if isinstance(module, nn.RNNBase):  # which keeps a second list of its weights
            module._flat_weights[module._flat_weights_names.index(name)] = weight


def hand_over(inputs: Sequence[Tensor], gradients: list[Tensor | None]) -> None:
    """Backward from a node that has `gradients` for `inputs`, weights or tensors with a graph. Empties the list."""
    if inputs:
        with torch.enable_grad():
            _Known.apply(gradients, *inputs).backward()  # type: ignore[no-untyped-call]


class _Known(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradients: list[Tensor | None], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return inputs[0].new_empty((), dtype=torch.float32)  # a backward starts at real numbers only

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor | None, ...]:
        found = tuple(ctx.gradients)
        ctx.gradients.clear()
        return (None, *found)
