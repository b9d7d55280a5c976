"""How `Stage` is built and called: the judge hands out one op after another, and computes what the layers compute.

Each stage is watched: what it gives back, and what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.forms import HandedOutAgain, gather
from gpipe_edu.judge.guest.memory import arrays_in
from gpipe_edu.process.asking import ask_judge
from gpipe_edu.reference.layers import Array, Layer, Params, Saved

HIDDEN: Final = {"gpipe_edu.reference.stage.Stage": "Stage"}


class StageQuestion(NamedTuple):
    """A network without its real weights, and where its stages begin and end; the judge gives the ops."""

    sizes: list[int]
    seed: int
    cuts: list[int]

    @property
    def layers(self) -> list[ref.Layer]:
        """The network, newly built."""
        return ref.mlp(self.sizes, activation="tanh", seed=self.seed)


class StageAnswer(NamedTuple):
    """The gradients, after all ops that the judge has given."""

    grads: Any


def perform(Theirs: Any, **given: Any) -> StageAnswer | dict[str, str]:
    """The answer to a `StageQuestion`."""
    asked = StageQuestion(**given)
    layers = [AskedLayer(layer, place) for place, layer in enumerate(asked.layers)]
    stages = [LearnersStage(Theirs(layers[a:b]), layers[a:b]) for a, b in pairwise(asked.cuts)]
    came, held = None, 0
    try:
        while op := ask_judge(("next", came, held)):
            method, k, m, value = op
            came = getattr(stages[k], method)(m, value)
            held = stages[k].held_bytes
        for stage in stages:
            stage.look_back()
    except NotComputable as error:
        return error.said
    grads = [gather(stage.theirs.grads) for stage in stages]
    return StageAnswer([layer for each in grads for layer in (each if isinstance(each, list) else [each])])


class AskedLayer(Layer):
    """A layer whose output and gradients the judge computes; its own weights are not the real ones."""

    def __init__(self, layer: Layer, place: int) -> None:
        super().__init__()
        self.layer, self.place, self.params = layer, place, layer.params

    def forward(self, x: Array) -> tuple[Array, Saved]:
        """The output, and what `backward` needs, with the number of this run."""
        mine, saved = self._fits("forward", x, self.layer.forward, x)
        run, y = ask_judge(("F", self.place, x, None))
        return y, (*(y if one is mine else one for one in saved), np.array([run]))

    def backward(self, dy: Array, saved: Saved) -> tuple[Array, Params]:
        """Both gradients."""
        *arrays, run = saved
        self._fits("backward", dy, self.layer.backward, dy, tuple(arrays))
        dx, grads = ask_judge(("B", self.place, int(run[0]), dy, tuple(arrays)))
        return dx, grads

    def _fits(self, way: str, given: Array, method: Callable[..., Any], *arguments: Any) -> Any:
        """What the layer makes of arrays. Raises NotComputable if they do not fit it."""
        try:
            return method(*arguments)
        except ValueError:
            came = f"shape {np.shape(given)}, to the {way} of layer {self.place}, {type(self.layer).__name__}"
            raise NotComputable("misfit", "an array that fits the layer", came) from None

    def input_gradient(self, dy: Array, saved: Saved) -> Array:
        """The first of the two."""
        return self.backward(dy, saved)[0]

    def weight_gradient(self, dy: Array, saved: Saved) -> Params:
        """The second."""
        return self.backward(dy, saved)[1]


class NotComputable(Exception):
    """Something that no engine can compute with came back: the slip, what was expected and what came."""

    def __init__(self, slip: str, expected: str, came: str) -> None:
        super().__init__(slip)
        self.said = {"slip": slip, "expected": expected, "came": came}


class LearnersStage:
    """Hands each op on to the learner's stage."""

    def __init__(self, theirs: Any, layers: Sequence[Layer]) -> None:
        self.theirs, self.layers = theirs, layers
        self._inputs: dict[int, tuple[Array, Array]] = {}
        self._given: list[tuple[Array, bytes]] = []
        self._own = [set(vars(layer)) for layer in layers]
        self._weights = [value.copy() for value in self._weights_now]

    def forward(self, m: int, x: Array) -> Array:
        """F: the learner's forward."""
        self._inputs[m] = x, x.copy()
        return self._ask("forward", m, x)

    def backward(self, m: int, dy: Array) -> Array:
        """C: the learner's backward, which is to run the layers again."""
        dx, (x, was) = self._ask("backward", m, dy), self._inputs.pop(m)
        _make_sure_it_is_as_it_was(x, was)
        shape = x.shape
        if dx.shape != shape:
            raise NotComputable("other-shape", f"shape {shape}", f"shape {dx.shape}")
        return dx

    def look_back(self) -> None:
        """Raise HandedOutAgain for an array that has changed since it was given back, NotComputable for weights."""
        if any(array.tobytes() != was for array, was in self._given):
            raise HandedOutAgain
        if not all(map(np.array_equal, self._weights_now, self._weights)):
            raise NotComputable("weights-changed", "the weights as they were", "others")

    @property
    def _weights_now(self) -> list[Array]:
        return [value for layer in self.layers for value in layer.params.values()]

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays that the learner's stage holds, besides weights and gradients."""
        known = self._weights_now + arrays_in([self.theirs.grads], [])
        inside = [value for name, value in vars(self.theirs).items() if name != "grads"]
        for layer, own in zip(self.layers, self._own, strict=True):
            inside += [value for name, value in vars(layer).items() if name not in own]
        return sum(array.nbytes for array in arrays_in(inside, known))

    def _ask(self, method: str, m: int, value: Array) -> Array:
        was = value.copy()
        found = getattr(self.theirs, method)(m, value)
        _make_sure_it_is_as_it_was(value, was)
        if not isinstance(found, np.ndarray):
            raise NotComputable(f"no-array-{method}", "an array", type(found).__name__)
        self._given.append((found, found.tobytes()))
        return found


def _make_sure_it_is_as_it_was(value: Array, was: Array) -> None:
    if not np.array_equal(value, was):
        raise NotComputable("overwritten", "the array as it was", "other numbers")
