"""One stage: some consecutive layers, and what they hold of the micro-batches in flight.

Each op of a schedule is one method here. What a stage holds of a micro-batch is

    inputs   the boundary input, from its forward until it is finished
    saved    what its layers saved, from forward (or recompute) until it is finished
    pending  after an input gradient: the gradients at the layers' outputs, which the weight gradient needs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .layers import Array, Layer, Params, Saved


class Stage:
    """Layers that run on one device: what the PyTorch engine's `Stage` is with tensors and autograd.

    `layers_at(m)` gives them for micro-batch m; `keeps(m)` says whether `saved` stays after its forward.
    """

    def __init__(
        self, layers: Sequence[Layer], layers_at: Callable[[int], Sequence[Layer]], keeps: Callable[[int], bool]
    ) -> None:
        self.layers_at, self.keeps = layers_at, keeps
        self.inputs: dict[int, Array] = {}
        self.saved: dict[int, list[Saved]] = {}
        self.pending: dict[int, list[Array]] = {}
        self.grads: list[Params] = [
            {name: np.zeros_like(value) for name, value in layer.params.items()} for layer in layers
        ]
        self.statistics: list[Params] = [{} for _ in layers]
        self.bytes: dict[int, int] = {}
        self.peak_bytes = 0

    def forward(self, m: int, x: Array) -> Array:
        """F: the stage's output for the boundary input x."""
        self.inputs[m] = x
        y = self._run(m)
        for total, layer, saved in zip(self.statistics, self.layers_at(m), self.saved[m], strict=True):
            _add(total, layer.statistics(saved))
        if not self.keeps(m):
            del self.saved[m]
            self._count(m)
        return y

    def recompute(self, m: int) -> None:
        """R: the forward again from the stored boundary input, to have `saved` again."""
        self._run(m)

    def backward(self, m: int, dy: Array) -> Array:
        """B: both gradients, layer by layer; returns the gradient for the stage in front."""
        for grads, layer, saved in self._reversed(m):
            dy, grad = layer.backward(dy, saved)
            _add(grads, grad)
        self._release(m)
        return dy

    def checkpointed_backward(self, m: int, dy: Array) -> Array:
        """C: R and B in one."""
        self.recompute(m)
        return self.backward(m, dy)

    def input_gradient(self, m: int, dy: Array) -> Array:
        """I: the gradient for the stage in front; the weights' are left for later."""
        self.pending[m] = []
        for _, layer, saved in self._reversed(m):
            if layer.params:
                self.pending[m].append(dy)
            dy = layer.input_gradient(dy, saved)
        # W needs nothing from a layer without weights.
        steps = zip(self.layers_at(m), self.saved[m], strict=True)
        self.saved[m] = [saved if layer.params else () for layer, saved in steps]
        self._count(m)
        return dy

    def weight_gradient(self, m: int) -> None:
        """W: what I left for later."""
        with_weights = [step for step in self._reversed(m) if step[1].params]
        for (grads, layer, saved), dy in zip(with_weights, self.pending[m], strict=True):
            _add(grads, layer.weight_gradient(dy, saved))
        self._release(m)

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays held for micro-batches that are not finished; an array used twice counts once."""
        return sum(self.bytes.values())

    def _run(self, m: int) -> Array:
        x, self.saved[m] = self.inputs[m], []
        for layer in self.layers_at(m):
            x, saved = layer.forward(x)
            self.saved[m].append(saved)
        self._count(m)
        return x

    def _reversed(self, m: int) -> list[tuple[Params, Layer, Saved]]:
        return list(zip(self.grads, self.layers_at(m), self.saved[m], strict=True))[::-1]

    def _release(self, m: int) -> None:
        for store in (self.inputs, self.saved, self.pending, self.bytes):
            store.pop(m, None)

    def _count(self, m: int) -> None:
        arrays = [self.inputs[m], *self.pending.get(m, ())]
        arrays += [array for saved in self.saved.get(m, ()) for array in saved]
        self.bytes[m] = sum({id(array): array.nbytes for array in arrays}.values())
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)


def _add(total: Params, more: Params) -> None:
    for name, value in more.items():
        total[name] = total[name] + value if name in total else value
