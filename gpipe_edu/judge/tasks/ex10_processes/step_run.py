"""The run that is judged: a training step in processes, with what these have noted, and the same step on one device.

What each process ran of its own stage is known from the runs of the judge's layers. Only the process of a stage can
have its layers run, and only it is told what came out. A process that has computed with an activation or a gradient
of another has therefore been sent it, in whatever way. The ops of each and the messages between them have signs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from math import prod
from typing import Any

from gpipe_edu import reference as ref
from gpipe_edu.base.words import tell_apart
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.guest.networks import Array, Item, layer_of
from gpipe_edu.judge.guest.processes import Diaries
from gpipe_edu.judge.remote_layers import AskedLayers
from gpipe_edu.judge.tasks.ex10_processes.perform import ProcessAnswer, RunQuestion, cuts_of
from gpipe_edu.judge.weighting import Parts, flat, parts_of
from gpipe_edu.schedule import Schedule


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
    def losses_in_words(self) -> tuple[str, str]:
        """The true one and that of the last process, to be shown."""
        if self.loss is None or isinstance(self.loss, str):
            return f"{self.true_loss:.6g}", str(self.loss)
        return tell_apart(self.true_loss, self.loss)

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
        """The answer. Raises LookupError for a layer of another process, ValueError for any other question."""
        k, asked = question
        return self._stages[k](asked)

    def of_last_step(self, k: int) -> list[tuple[str, int]]:
        """ "F" and "B" of process k's first layer with weights, each with the number of its forward in the step."""
        layers, place = self._stages[k], self._first[k]
        runs = {number: run for number, run in layers.runs_of(layers.step).items() if run.place == place}
        forwards = [number for number, run in runs.items() if run.kind == "F"]
        return [(run.kind, forwards.index(run.of)) for run in runs.values() if run.of in forwards]


def last_step(diary: Sequence[Entry]) -> list[Entry]:
    """The entries of the last training step."""
    begins = [index for index, entry in enumerate(diary) if "step" in entry]
    return list(diary[begins[-1] :] if begins else diary)


def about_habits(schedule: Schedule, diaries: Diaries) -> Signs:
    """Habits that belong to other kinds of parallelism."""
    last = schedule.stages - 1
    for k, diary in enumerate(diaries):
        for entry in diary:
            collective, came = entry.get("collective"), f"dist.{entry.get('collective')} on process {k}"
            slip = "barrier" if collective == "barrier" else "all-reduce"
            yield Sign(slip, collective is not None, expected="sends and receives", came=came)
            expected, came = f"on process {last}", f"on process {k}"
            yield Sign("loss-everywhere", "loss" in entry and k < last, expected=expected, came=came)
    yield from _about_sources(diaries)


def _about_sources(diaries: Diaries) -> Signs:
    """A process between two others must say from whom it receives, or tell messages apart by their tags."""
    for k, diary in list(enumerate(diaries))[1:-1]:
        open_tags = {entry["tag"] for entry in diary if _receives(entry) and entry["peer"] is None}
        for side in (diaries[k - 1], diaries[k + 1]):
            open_tags &= {entry["tag"] for entry in side if _sends(entry) and entry["peer"] == k}
        expected = f"process {k}: dist.recv(x, {k - 1})"
        yield Sign("from-anybody", bool(open_tags), expected=expected, came="dist.recv(x)")


def about_ops(schedule: Schedule, own: OwnRuns) -> Signs:
    """Each process ran its row."""
    M = schedule.micro_batches
    for k, row in enumerate(schedule.rows):
        asked = [(op.kind, str(op.micro_batch)) for op in row]
        runs = own.of_last_step(k)
        ran = _ran(runs, [m for kind, m in asked if kind == "F"])
        if ran == asked:
            continue
        expected, came = (f"process {k}: {' '.join(kind + m for kind, m in ops)}" for ops in (asked, ran))
        kinds, backwards = [kind for kind, _ in ran], [m for kind, m in ran if kind == "B"]
        same_graph = len(set(backwards)) < M <= sum(kind == "B" for kind, _ in runs)
        yield Sign("forwards", kinds.count("F") != M, expected=expected, came=came)
        yield Sign("same-graph", same_graph, expected=expected, came=came)
        yield Sign("no-backward", len(backwards) < M, expected=expected, came=came)
        yield Sign("other-order", kinds != [kind for kind, _ in asked], expected=expected, came=came)
        yield Sign("other-micro-batch", expected=expected, came=came)


def _ran(runs: Sequence[tuple[str, int]], order: list[str]) -> list[tuple[str, str]]:
    """(kind, micro-batch) of what a process ran, several backwards through one graph in a row as one.

    A forward beyond those of the row has no micro-batch.
    """
    ran = [(kind, order[index] if index < len(order) else "") for kind, index in runs]
    ran = [(kind, m) for kind, m in ran if kind == "F" or m]
    return [op for op, same in groupby(ran) for op in (same if op[0] == "F" else [op])]


def about_buffers(diaries: Diaries, M: int) -> Signs:
    """No process sent from memory that an earlier message may still have been read from. M: micro-batches."""
    for k, diary in enumerate(diaries):
        sent = Counter(entry["peer"] for entry in diary if _sends(entry))
        flying: dict[int, tuple[int, int]] = {}  # post -> (memory, to whom)
        coming: dict[int, int] = {}  # post -> from whom
        came = f"process {k} filled what it was still sending"
        for entry in diary:
            if _sends(entry):
                taken = any(entry["memory"] == memory for memory, _ in flying.values())
                expected, many = f"{M} messages to process {entry['peer']}", sent[entry["peer"]]
                yield Sign("extra-message", taken and many > M, expected=expected, came=f"{many} from process {k}")
                yield Sign("one-send-buffer", taken, came=came)
                if prod(entry["shape"]):
                    flying[entry["post"]] = entry["memory"], entry["peer"]
            elif _receives(entry):
                coming[entry["post"]] = entry["peer"]
            ended: int = entry.get("end", -1) if "op" not in entry else -1
            flying.pop(entry.get("drop", ended), None)  # a dropped handle is judged elsewhere
            if ended in coming:  # a reply shows that what was sent has arrived, if the learner relies on that
                flying = {post: sent for post, sent in flying.items() if sent[1] != coming[ended]}


def about_messages(run: StepRun) -> Signs:
    """Activations and gradients went between neighbours, and nothing else to anybody. For a run right so far."""
    for source, target in ((a, b) for a in range(run.K) for b in range(run.K) if a != b):
        posts = [entry for entry in run.diaries[source] if _sends(entry) and entry["peer"] == target]
        sent, most, needed = sum(prod(entry["shape"]) for entry in posts), 0, 0
        if abs(source - target) == 1:
            most, needed = run.M, run.numbers_between(min(source, target))
        expected = f"{needed} numbers from process {source} to process {target}"
        yield Sign("no-message", sent < needed, expected=expected, came=f"{sent} numbers")
        yield Sign("extra-message", sent > needed and len(posts) > most, expected=expected, came=f"{sent} numbers")


def _sends(entry: Entry) -> bool:
    return "send" in entry.get("do", "")


def _receives(entry: Entry) -> bool:
    return "recv" in entry.get("do", "")
