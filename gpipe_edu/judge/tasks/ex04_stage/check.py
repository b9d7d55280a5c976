"""Does a stage in NumPy keep only its inputs, and compute the rest again?

The judge runs the learner's stages op by op, and stages of its own beside them on the same schedule: loss, gradients
and the bytes held after every op must agree. It does the layers' computing itself, so it knows which run a backward
relied on; the bytes are what the learner's process says. Training is handed out one op at a time,
each with its array, so that nothing can be done before its turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, chain, pairwise
from random import Random
from typing import Any, Final, TypeAlias

import numpy as np

from gpipe_edu import balance_uniform, gpipe, one_f_one_b, split_batch
from gpipe_edu import reference as ref
from gpipe_edu.base.words import percent, plural, tell_apart
from gpipe_edu.judge.case import Exam, Sign, Signs
from gpipe_edu.judge.findings import Chart, Success, Unwritten
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.networks import draw_digits, one_device
from gpipe_edu.judge.remote_layers import AskedLayers
from gpipe_edu.judge.tasks.ex04_stage.perform import StageAnswer, StageQuestion
from gpipe_edu.judge.weighting import factor_of, flat
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.schedule.recompute import with_kinds

Grads: TypeAlias = list[dict[str, Array]]


@dataclass(frozen=True)
class StageTraining:
    """Mini-batches that train a network on a schedule, with gradients added up, and the true results.

    cuts: where each stage begins, and the end.
    """

    layers: list[ref.Layer]
    cuts: list[int]
    batches: list[Batch]
    schedule: Schedule

    @property
    def stages(self) -> list[slice]:
        """The layers of each stage."""
        return [slice(a, b) for a, b in pairwise(self.cuts)]

    @property
    def pieces(self) -> list[Batch]:
        """The micro-batches of the last mini-batch."""
        return split_batch(self.batches[-1], self.schedule.micro_batches)

    @property
    def largest_output(self) -> int:
        """The bytes of the largest array that a stage hands on for a micro-batch."""
        outputs = (ref.predict(self.layers[:b], x) for x, _ in self.pieces for b in self.cuts[1:])
        return max(output.nbytes for output in outputs)

    @property
    def exact(self) -> Grads:
        """The gradients of one device, added up over the mini-batches."""
        return reduce(ref.accumulate_grads, (ref.train_sequential(self.layers, x, y)[1] for x, y in self.batches))

    @property
    def shares(self) -> list[Grads]:
        """What each micro-batch of the last mini-batch adds to the gradients."""
        N = len(self.batches[-1][0])
        parts = [(len(x) / N, ref.train_sequential(self.layers, x, y)[1]) for x, y in self.pieces]
        return [[{name: share * value for name, value in layer.items()} for layer in grads] for share, grads in parts]

    @property
    def input_gradients(self) -> dict[tuple[int, int], Array]:
        """What the backward of each micro-batch of the last mini-batch on each stage is to give back."""
        found, N = {}, len(self.batches[-1][0])
        for m, (x, y) in enumerate(self.pieces):
            inputs = [x]
            for stage in self.stages:
                inputs.append(ref.predict(self.layers[stage], inputs[-1]))
            dy = ref.cross_entropy(inputs[-1], y)[1] * (len(x) / N)
            for k, stage in reversed(list(enumerate(self.stages))):
                dy = found[m, k] = one_device(self.layers[stage], inputs[k], dy=dy).dx
        return found

    def held_inputs(self, batch: Batch) -> list[list[int]]:
        """Bytes of the inputs that each of the engine's own stages holds after each op of a mini-batch."""
        memory = ref.train_pipeline(self.layers, *batch, self.schedule).memory
        return [[entry.bytes for entry in row] for row in memory]


def examine(exam: Exam, rng: Random) -> Success:
    """One stage and one micro-batch, then several of both, in two schedules; two mini-batches; many; the digits."""
    cases = [(1, 1, 4), (1, 3, 6), (2, 4, 8), (2, 4, 10), (3, 5, 11)]
    cases += [(rng.randint(1, 3), rng.randint(2, 6), rng.randint(6, 14)) for _ in range(3)]
    sizes, numbers = [5, 7, 6, 8, 4], np.random.default_rng(rng.randrange(2**32))

    def batch(N: int) -> Batch:
        return numbers.normal(size=(N, 5)), numbers.integers(0, 4, size=N)

    for index, (K, M, N) in enumerate(cases):
        for schedule in (gpipe(K, M), one_f_one_b(K, M)):
            # Wrong gradients come before what is held: they say more about the idea.
            _judge(exam, rng, sizes, [batch(N)], schedule, memory=index > 3)
    with exam.blame_on("second-mini-batch"):
        _judge(exam, rng, sizes, [batch(8), batch(11)], gpipe(2, 3))
    with exam.blame_on("only-small", M=70):
        _judge(exam, rng, [5, 4], [batch(90)], gpipe(1, 70))
    schedule = one_f_one_b(3, 6)
    error = _judge(exam, rng, [64, 32, 32, 32, 10], [draw_digits(rng, 48)], schedule)
    chart = Chart("your stages under 1F1B", str(with_kinds(schedule, {"B": "C"})))
    keeps_more = any(finding.slip == "keeps-one" for finding in exam.passed_over)
    return exam.success(chart, error=error, memory="" if keeps_more else _MEMORY)


_OF_ANOTHER_LAYER: Final = (
    "ValueError: operands",
    "ValueError: non-broadcastable",
    "KeyError: 'weight'",
    "KeyError: 'bias'",
)
"""Errors of an answer's own lines; layers say themselves what does not fit them."""

_MEMORY: Final = ", and between forward and backward a micro-batch never had more than its stage's input in memory"


def _judge(
    exam: Exam, rng: Random, sizes: list[int], batches: list[Batch], schedule: Schedule, memory: bool = True
) -> float:
    """Judge one run; returns the error of its gradients."""
    count = f"{plural(schedule.stages, 'stage')}, {plural(schedule.micro_batches, 'micro-batch')}"
    second = ", the second mini-batch" if len(batches) > 1 else ""
    case = exam.case(f"{count}, {schedule.name}{second}")
    layers = ref.mlp(sizes, activation="tanh", seed=rng.randrange(2**32))
    cuts = [0, *accumulate(balance_uniform(len(layers), schedule.stages))]
    asked = StageTraining(layers, cuts, batches, with_kinds(schedule, {"B": "C"}))
    run = OpByOp(asked.layers, cuts, batches, asked.schedule)
    question = StageQuestion(sizes, exam.secret.randrange(2**32), cuts)
    try:
        grads = case.ask_for(
            StageAnswer,
            question,
            {"KeyError": "key"} | dict.fromkeys(_OF_ANOTHER_LAYER, "other-layer"),
            run,
        ).grads
    except Unwritten:
        if run.ran_forward:
            case.judge(_about_the_forward(asked, run))
            raise case.wrong(Sign("only-forward")) from None
        raise
    case.judge(_about_the_output(asked, run, grads))
    error = ref.gradient_difference(grads, asked.exact)
    if not error < 1e-9:
        case.expected, case.came = "the gradients of one device", f"off by {percent(error)}"
        case.judge(_about_gradients(asked, run, grads, error))
    case.judge(_about_input_gradients(asked, run, grads))
    if memory:
        case.judge(_about_memory(asked, run.held))
    case.judge(_about_runs(asked, run, memory))
    return error


def _about_the_output(asked: StageTraining, run: OpByOp, grads: Any) -> Signs:
    yield from _about_the_forward(asked, run)
    yield Sign("other-grads", _forms(grads) != _forms(asked.exact))


def _about_the_forward(asked: StageTraining, run: OpByOp) -> Signs:
    yield Sign("other-output", bool(run.misshapen), expected=run.expected, came=run.misshapen)
    loss, _ = ref.train_sequential(asked.layers, *asked.batches[-1])
    wrong = not abs(run.loss - loss) < 1e-9
    expected, came = tell_apart(loss, run.loss)
    yield Sign("other-output", wrong, expected=f"loss {expected}", came=f"loss {came}")


def _forms(grads: Any) -> list[Any]:
    """The names and shapes in gradients."""
    return [isinstance(layer, dict) and {name: np.shape(value) for name, value in layer.items()} for layer in grads]


def _about_gradients(asked: StageTraining, run: OpByOp, grads: Any, error: float) -> Signs:
    """For gradients that are not those of one device."""
    if error < 2e-3:
        yield Sign("rounded")
        return
    several = asked.schedule.micro_batches > 1
    yield Sign("no-gradients", not any(np.any(value) for layer in grads for value in layer.values()))
    order = [op.micro_batch for op in asked.schedule.rows[0] if op.kind == "C"]
    for slip, m in (("not-added", order[-1]), ("only-first", order[0])):
        yield Sign(slip, several and ref.gradient_difference(grads, asked.shares[m]) < 1e-9)
    factor = factor_of(flat(grads), flat(asked.exact))
    yield Sign("scaled", bool(factor), words={"factor": f"{factor:.3g}"})
    yield from _about_input_gradients(asked, run, grads)
    taken = run.inputs_taken(asked.cuts)
    for slip, place in (("pile", -1), ("queue", 0)):
        other = next(((op, m) for op, m in taken if m != op.micro_batch), None)
        if other and _always_takes(place, asked.schedule, taken):
            yield Sign(slip, words={"m": other[0].micro_batch, "other": other[1]})
    yield Sign("other-input", several)
    yield Sign("other-gradient")


def _always_takes(place: int, schedule: Schedule, taken: Sequence[tuple[Op, int]]) -> bool:
    """Whether each backward has taken the first input that its stage still had, or the last one (-1)."""
    found = iter(taken)
    held: dict[int, list[int]] = {k: [] for k in range(schedule.stages)}
    for _, op, _ in schedule.steps:
        if op.kind == "F":
            held[op.stage].append(op.micro_batch)
        elif next(found, None) != (op, held[op.stage].pop(place)):
            return False
    return True


def _about_input_gradients(asked: StageTraining, run: OpByOp, grads: Any) -> Signs:
    """Of stages, the last one first, as long as the gradients of their own weights are right."""
    exact, expected = asked.exact, asked.input_gradients
    for k, stage in reversed(list(enumerate(asked.stages))):
        if not ref.gradient_difference(grads[stage], exact[stage]) < 1e-9:
            return
        for m in range(asked.schedule.micro_batches):
            error = ref.gradient_difference([run.dx[m, k]], [expected[m, k]])
            told = (
                "the gradient of the stage's input",
                f"for micro-batch {m} on stage {k} it is off by {percent(error)}",
            )
            yield Sign("rounded" if error < 2e-3 else "other-dx", not error < 1e-9, *told)


def _about_memory(asked: StageTraining, told: list[list[int]]) -> Signs:
    """What is held after each op, beside the engine's own stages."""
    *earlier, inputs = map(asked.held_inputs, asked.batches)
    left = sum(row[-1] for row in told)
    before, behind = (_beyond(asked, told, inputs, by) for by in (-1, 0))
    grows = asked.schedule.micro_batches < 3 or left > 2 * behind  # with each micro-batch; two are too few to tell
    yield Sign("saved-stays", before == 0 < left and not grows, came=f"{left} bytes")
    yield Sign("never-freed", left > 0, expected="0 bytes after the last backward", came=f"{left} bytes")
    if left:  # a stage that frees nothing may yet keep only inputs
        inputs = [_add_up(chain(*rows))[-len(rows[-1]) :] for rows in zip(*earlier, inputs, strict=True)]
    several = asked.schedule.micro_batches > 1  # each of which would keep something
    more = max(held - allowed for held, allowed in zip(chain(*told), chain(*inputs), strict=True))
    slip = "keeps-one" if several and more <= asked.largest_output else "keeps-more"
    yield Sign(slip, more > 0, expected="only the inputs", came=f"{more} bytes more")


def _beyond(asked: StageTraining, held: list[list[int]], inputs: list[list[int]], by: int) -> int:
    """Bytes that stages hold beyond their inputs when their first backward is over. by: how many ops later."""
    places = [next(i for i, op in enumerate(row) if op.kind == "C") + by for row in asked.schedule.rows]
    return sum(mine[i] - allowed[i] for mine, allowed, i in zip(held, inputs, places, strict=True))


def _add_up(held: Iterable[int]) -> list[int]:
    """What a device would hold after each op if it freed nothing."""
    return list(accumulate(max(0, after - before) for before, after in pairwise([0, *held])))


def _about_runs(asked: StageTraining, run: OpByOp, memory: bool) -> Signs:
    """How often layers run forward, in the forward and in the backward, and which runs a backward relied on."""
    once = len(asked.layers) * asked.schedule.micro_batches * len(asked.batches)
    expected, forward, backward = f"{once} runs of a layer", run.forwards_in("F"), run.forwards_in("C")
    yield Sign("twice-forward", forward > once, expected, str(forward))
    yield Sign("too-many-recomputes", backward > once, expected, str(backward))
    yield Sign("kept-elsewhere", memory and backward < once, expected, str(backward))
    yield Sign("keeps-more", memory and run.relies_on_the_first, "only the inputs", "a backward that used more")


Batch: TypeAlias = tuple[Array, Array]


class OpByOp:
    """Answers what `perform.py` asks: for the next op, and for what a layer computes.

    cuts: where each stage begins, and the end. loss, dx, held: of the last mini-batch; dx: what the backward of each
    micro-batch on each stage gave back; held: the bytes that each device told after each of its ops. expected,
    misshapen: the shapes, if an output ended it because no op can take that.
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
        """The answer. Raises ValueError for any other question."""
        if question[0] != "next":
            return self._layers(question)
        _, came, held = question
        self._layers(("step",))
        return next(self._todo) if self._layers.step == 0 else self._todo.send((came, held))

    def _hand_out(self) -> Generator[Any, tuple[Any, int], None]:
        """(method, stage, micro-batch, array) for each op, then None; is sent what came and the bytes then held."""
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

    @property
    def ran_forward(self) -> bool:
        """Whether all micro-batches have been through all stages."""
        ops = [op for _, op, _ in self._schedule.steps]
        return "C" in self._kinds and self._kinds.count("F") == sum(op.kind == "F" for op in ops)

    def inputs_taken(self, cuts: Sequence[int]) -> list[tuple[Op, int]]:
        """For each backward of the last mini-batch whose first layer ran again: the micro-batch whose input it took."""
        ops = [op for _, op, _ in self._schedule.steps]
        first: dict[Op, Array] = {}
        for run in self._layers.runs:
            number = run.step - (len(self._kinds) - len(ops))
            if run.kind == "F" and 0 <= number < len(ops) and run.place == cuts[ops[number].stage]:
                first.setdefault(ops[number], run.x)
        given = {op: x for op, x in first.items() if op.kind == "F"}
        return [
            (
                op,
                next(
                    (
                        other.micro_batch
                        for other, y in given.items()
                        if op.stage == other.stage and np.array_equal(x, y)
                    ),
                    -1,
                ),
            )
            for op, x in first.items()
            if op.kind == "C"
        ]

    def forwards_in(self, kind: str) -> int:
        """How often layers ran forward in ops of a kind."""
        return sum(run.kind == "F" and self._kinds[run.step] == kind for run in self._layers.runs)

    @property
    def relies_on_the_first(self) -> bool:
        """Whether a backward used something not given by a run of the same op."""
        runs = self._layers.runs
        return any(run.kind == "B" and not (run.as_it_was and runs[run.of].step == run.step) for run in runs)
