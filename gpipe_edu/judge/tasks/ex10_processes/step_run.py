"""The run that is judged: a training step in processes, and the same step on one device.

What each process ran of its own stage, from the runs of the judge's layers.

Only the processes of a stage can have its layers run, and what came out of them only they are told. A process that has
computed with an activation or a gradient has therefore been sent it, in whatever way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from gpipe_edu import reference as ref
from gpipe_edu.judge.guest.networks import Array, Item, layer_of
from gpipe_edu.judge.guest.processes import Diaries
from gpipe_edu.judge.remote_layers import AskedLayers
from gpipe_edu.judge.tasks.ex10_processes.perform import ProcessAnswer, RunQuestion, cuts_of
from gpipe_edu.judge.weighting import Parts, flat, parts_of


@dataclass(frozen=True)
class StepRun:
    """A question, the answer of each process, and what each has noted in the last step.

    others: the layers with the weights that the processes had. ran: what each ran of the judge's layers.
    """

    asked: RunQuestion
    others: Sequence[Item]
    ran: OwnRuns
    processes: Sequence[ProcessAnswer]
    diaries: Diaries

    @property
    def K(self) -> int:
        """How many processes there are."""
        return self.asked.schedule.stages

    @property
    def M(self) -> int:
        """How many micro-batches there are."""
        return self.asked.schedule.micro_batches

    @cached_property
    def layers(self) -> list[ref.Layer]:
        """The network."""
        return list(map(layer_of, self.asked.items))

    @property
    def loss(self) -> Any:
        """That of the last process."""
        return self.processes[-1].loss

    @property
    def loss_in_words(self) -> str:
        """The same, to be shown."""
        return str(self.loss) if self.loss is None or isinstance(self.loss, str) else f"{self.loss:.6f}"

    @cached_property
    def stages(self) -> list[slice]:
        """Which layers are whose."""
        return [slice(a, b) for a, b in pairwise(cuts_of(len(self.layers), self.K))]

    @cached_property
    def _one_device(self) -> tuple[float, list[ref.layers.Params]]:
        return ref.train_sequential(self.layers, self.asked.x, self.asked.y)

    @property
    def true_loss(self) -> float:
        """That of one device."""
        return self._one_device[0]

    def true_grads(self, k: int) -> list[Array]:
        """Those of one device, for the weights of stage k."""
        return flat(self._one_device[1][self.stages[k]])

    @cached_property
    def errors(self) -> list[float]:
        """How far the gradients of each stage are from those of one device."""
        return [ref.gradient_difference(self.processes[k].grads, self.true_grads(k)) for k in range(self.K)]

    def numbers_between(self, k: int) -> int:
        """How many numbers are in all activations, or all gradients, between stages k and k + 1."""
        behind = self.layers[self.stages[k].stop :]
        return len(self.asked.x) * next(len(layer.params["weight"]) for layer in behind if layer.params)

    def parts(self, k: int, kind: str) -> Parts:
        """Each micro-batch alone, with the gradients of stage k, in the order of its row's "F" or "B"."""
        order = [op.micro_batch for op in self.asked.schedule.rows[k] if op.kind == kind]
        return parts_of(self.layers, self.asked.x, self.asked.y, self.M, stage=self.stages[k], order=order)


class OwnRuns:
    """Answers (process, question). cuts: where each stage begins, and the end."""

    def __init__(self, layers: Sequence[ref.Layer], cuts: Sequence[int]) -> None:
        stages = [range(a, b) for a, b in pairwise(cuts)]
        self._stages = [AskedLayers({place: layers[place] for place in stage}) for stage in stages]
        self._first = [next(place for place in stage if layers[place].params) for stage in stages]

    def __call__(self, question: Any) -> Any:
        """The answer. Raises LookupError for a layer of another process, ValueError for what is no question."""
        k, asked = question
        return self._stages[k](asked)

    def of_last_step(self, k: int) -> list[tuple[str, int]]:
        """ "F" and "B" of process k's first layer with weights, each with the number of its forward in the step."""
        layers, place = self._stages[k], self._first[k]
        runs = {number: run for number, run in layers.runs_of(layers.step).items() if run.place == place}
        forwards = [number for number, run in runs.items() if run.kind == "F"]
        return [(run.kind, forwards.index(run.of)) for run in runs.values() if run.of in forwards]
