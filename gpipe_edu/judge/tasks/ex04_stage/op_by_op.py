"""A training that is handed out one op at a time, each with its array, so that nothing can be done before its turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu import split_batch
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.remote_layers import AskedLayers
from gpipe_edu.schedule import Schedule

Batch: TypeAlias = tuple[Array, Array]


class OpByOp:
    """Answers what `perform.py` asks: for the next op, and for what a layer computes.

    cuts: where each stage begins, and the end. Of the last mini-batch, loss; dx: what the backward of each micro-batch
    on each stage gave back; held: the bytes that each device told after each of its ops. expected, misshapen: of an
    output that ended it, as no op can take it.
    """

    def __init__(self, layers: list[ref.Layer], cuts: list[int], batches: list[Batch], schedule: Schedule) -> None:
        self._batches, self._schedule = batches, schedule
        self._layers = AskedLayers(dict(enumerate(layers)))
        with_weights = [[layer for layer in layers[:b] if layer.params] for b in cuts[1:]]
        self._features = [found[-1].params["bias"].size for found in with_weights]
        self._todo = self._hand_out()
        self._kinds: list[str] = []
        self.loss, self.held, self.expected, self.misshapen = 0.0, [[0]], "", ""
        self.dx: dict[tuple[int, int], Array] = {}

    def __call__(self, question: Any) -> Any:
        """The answer. Raises ValueError for what is no question."""
        if question[0] != "next":
            return self._layers(question)
        _, came, held = question
        self._layers(("step",))
        return next(self._todo) if self._layers.step == 0 else self._todo.send((came, held))

    def _hand_out(self) -> Generator[Any, tuple[Any, int], None]:
        """(method, stage, micro-batch, array) for each op; sent what came and the bytes then held. None at the end."""
        K, M = self._schedule.stages, self._schedule.micro_batches
        for x, y in self._batches:
            pieces, N = split_batch((x, y), M), len(x)
            waiting: dict[tuple[str, int, int], Array] = {("F", m, 0): piece for m, (piece, _) in enumerate(pieces)}
            self.loss, self.held = 0.0, [[] for _ in self._schedule.rows]
            for device, op, _ in self._schedule.steps:
                kind, m, k = op
                self._kinds.append(kind)
                came, held = yield {"F": "forward", "C": "backward"}[kind], k, m, waiting.pop(op)
                self.held[device].append(held)
                if kind == "C":
                    waiting["C", m, k - 1] = self.dx[m, k] = came
                    continue
                if np.shape(came) != (shape := (len(pieces[m][0]), self._features[k])):
                    self.expected, self.misshapen = f"shape {shape}", f"shape {np.shape(came)}"
                    yield None
                waiting["F", m, k + 1] = came
                if k == K - 1:
                    loss, dy = ref.cross_entropy(came, pieces[m][1])
                    share = len(came) / N
                    self.loss += share * loss
                    waiting["C", m, k] = share * dy
        yield None

    def forwards_in(self, kind: str) -> int:
        """How often layers ran forward in ops of a kind."""
        return sum(run.kind == "F" and self._kinds[run.step] == kind for run in self._layers.runs)

    @property
    def relies_on_the_first(self) -> bool:
        """Whether a backward used what no run of the same op had given."""
        runs = self._layers.runs
        return any(run.kind == "B" and not (run.as_it_was and runs[run.of].step == run.step) for run in runs)
