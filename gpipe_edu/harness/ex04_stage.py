"""How `Stage` is built and called: the reference engine trains with the learner's stages.

Each is watched: what it gives back, what it holds, how often its layers run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpipe_edu import reference as ref
from gpipe_edu.reference.layer import Array, Layer
from gpipe_edu.reference.stage import Stage
from gpipe_edu.schedule import Schedule

from .forms import gather

HIDDEN: Final = {"gpipe_edu.reference.stage.Stage": "Stage"}


Batch: TypeAlias = tuple[NDArray[Any], NDArray[Any]]


class StageQuestion(NamedTuple):
    """Mini-batches for a network on a schedule, its gradients added up."""

    sizes: list[int]
    seed: int
    batches: list[Batch]
    schedule: Schedule

    @property
    def layers(self) -> list[ref.Layer]:
        """The network, new."""
        return ref.mlp(self.sizes, activation="tanh", seed=self.seed)


class StageAnswer(NamedTuple):
    """What came of the last mini-batch: loss, gradients, bytes held after each op; and how often layers ran in all."""

    loss: float
    grads: Any
    held: list[list[int]]
    forward_runs: int
    backward_runs: int


def perform(Theirs: Any, **given: Any) -> StageAnswer | dict[str, str]:
    """The answer to a `StageQuestion`: train with the learner's stages, the same ones for all mini-batches."""
    asked, calls = StageQuestion(**given), [0]
    layers = asked.layers
    for layer in layers:
        count_forwards(layer, calls)
    stages: dict[int, LearnersStage] = {}

    def make_stage(mine: Sequence[ref.Layer], *_: Any) -> Stage:
        if id(mine[0]) not in stages:
            stages[id(mine[0])] = LearnersStage(Theirs(list(mine)), mine, calls)
        return stages[id(mine[0])]

    try:
        results = [ref.train_pipeline(layers, x, y, asked.schedule, make_stage=make_stage) for x, y in asked.batches]
    except NotComputable as error:
        return error.said
    grads = [gather(stage.theirs.grads) for stage in stages.values()]
    return StageAnswer(
        loss=results[-1].loss,
        grads=[layer for each in grads for layer in (each if isinstance(each, list) else [each])],
        held=[[entry.bytes for entry in row] for row in results[-1].memory],
        forward_runs=sum(stage.runs["forward"] for stage in stages.values()),
        backward_runs=sum(stage.runs["backward"] for stage in stages.values()),
    )


class NotComputable(Exception):
    """Something that no engine can compute with came back: the slip, what was expected and what came."""

    def __init__(self, slip: str, expected: str, came: str) -> None:
        super().__init__(slip)
        self.said = {"slip": slip, "expected": expected, "came": came}


class LearnersStage(Stage):
    """Hands each op on to the learner's stage; `calls` counts the forwards of all layers."""

    def __init__(self, theirs: Any, layers: Sequence[Layer], calls: list[int]) -> None:
        super().__init__(layers, lambda m: layers, keeps=lambda m: False)
        self.theirs, self.calls = theirs, calls
        self.runs: Counter[str] = Counter()
        self._inputs: dict[int, tuple[Array, Array]] = {}
        self._own = [set(vars(layer)) for layer in layers]

    def forward(self, m: int, x: Array) -> Array:
        """F: the learner's forward."""
        self._inputs[m] = x, x.copy()
        return self._ask("forward", m, x)

    def checkpointed_backward(self, m: int, dy: Array) -> Array:
        """C: the learner's backward, which is to run the layers again."""
        dx, (x, was) = self._ask("backward", m, dy), self._inputs.pop(m)
        _make_sure_it_is_as_it_was(x, was)
        shape = x.shape
        if dx.shape != shape:
            raise NotComputable("other-shape", f"shape {shape}", f"shape {dx.shape}")
        return dx

    @property
    def held_bytes(self) -> int:
        """Bytes of all arrays that the learner's stage holds, besides weights and gradients."""
        known = [value for layer in self.layers_at(0) for value in layer.params.values()]
        known += arrays_in([self.theirs.grads], [])
        inside = [value for name, value in vars(self.theirs).items() if name != "grads"]
        for layer, own in zip(self.layers_at(0), self._own, strict=True):
            inside += [value for name, value in vars(layer).items() if name not in own]
        return sum(array.nbytes for array in arrays_in(inside, known))

    def _ask(self, method: str, m: int, value: Array) -> Array:
        before, was = self.calls[0], value.copy()
        found = getattr(self.theirs, method)(m, value)
        _make_sure_it_is_as_it_was(value, was)
        self.runs[method] += self.calls[0] - before
        if not isinstance(found, np.ndarray):
            raise NotComputable(f"no-array-{method}", "an array", type(found).__name__)
        return found


def _make_sure_it_is_as_it_was(value: Array, was: Array) -> None:
    if not np.array_equal(value, was):
        raise NotComputable("overwritten", "the array as it was", "other numbers")


def count_forwards(layer: Any, calls: list[int]) -> None:
    """Make the layer count its forwards in `calls`."""
    forward = layer.forward

    def count_and_run(x: Array) -> Any:
        calls[0] += 1
        return forward(x)

    layer.forward = count_and_run


def arrays_in(waiting: list[Any], known: list[Any]) -> list[Array]:
    """All arrays that `waiting` leads to, each once, through objects and closures, but not through layers."""
    found, seen = [], {id(value) for value in known}
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, Layer):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            found.append(value)
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += value
        elif hasattr(value, "__dict__"):
            waiting += vars(value).values()
            waiting += [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
    return found
