"""What a pipeline did with its batch, read from the calls of its layers: the cut, the stages, the order, the recompute.

Rules are tried from the most telling one on: who has cut the batch wrongly learns nothing from hearing about the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from gpipe_edu.course.task import Blame, Chart
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.timeline.handing_out import handed_out

Numbers = tuple[float, ...]


class Ran(NamedTuple):
    """What ran: forwards in order as (micro-batch, stage), backwards likewise, how often each was recomputed."""

    forwards: list[tuple[int, int]]
    backwards: list[tuple[int, int]]
    recomputed: Counter[tuple[int, int]]
    micro_batches: int

    def schedule(self, K: int) -> Schedule:
        """As a schedule: a backward that recomputes is a C."""
        ops = [Op("F", m, k) for m, k in self.forwards]
        ops += [Op("C" if self.recomputed[m, k] else "B", m, k) for m, k in self.backwards]
        return Schedule([[op for op in ops if op.stage == k] for k in range(K)], name="your calls")


def read(calls: Sequence[Any], balance: Sequence[int], N: int, M: int, wrong: Blame) -> Ran:
    """Read the calls of one step. Raises the first thing that is wrong with cut, stages and order."""
    starts = [0, *accumulate(balance)][:-1]
    forwards = [(layer, tuple(numbers), thread) for kind, layer, numbers, thread, _, _ in calls if kind == "F"]
    pieces = _pieces(forwards, starts, N, M, wrong)
    name = {piece: m for m, piece in enumerate(sorted(pieces))}
    order = _stage_calls(forwards, starts, sum(balance), name, wrong)
    _judge_order(order, len(balance), len(pieces), wrong)
    ends = {start + count - 1: k for k, (start, count) in enumerate(zip(starts, balance, strict=True))}
    backwards = [(name.get(tuple(call[2]), -1), ends[call[1]]) for call in calls if call[0] == "B" and call[1] in ends]
    recomputed: Counter[tuple[int, int]] = Counter()
    before: tuple[int, Numbers] | None = None
    for layer, numbers in [(call[1], tuple(call[2])) for call in calls if call[0] == "R"]:
        if layer in starts:
            recomputed[name.get(numbers, -1), starts.index(layer)] += 1
        elif before != (layer - 1, numbers):
            because = (
                "Layers were checkpointed one by one. Then the input of every layer is kept; the whole stage in one "
                "call of checkpoint keeps only the input of the stage."
            )
            raise wrong("layer-by-layer", because)
        before = layer, numbers
    return Ran(order, backwards, recomputed, len(pieces))


def judge_count(calls: Sequence[Any], before: int, N: int, M: int, wrong: Blame) -> None:
    """Whether a mini-batch of N samples is cut anew after one of `before` samples."""
    entered = sum(kind == "F" and layer == 0 for kind, layer, *_ in calls)
    if entered == min(before, M) < min(N, M):
        because = (
            f"A mini-batch of {before} came first, and this one has as few micro-batches, though it has samples for "
            "more. What `forward` changes in `self` stays there: count in a variable of its own."
        )
        raise wrong("M-changed", because, f"{min(N, M)} micro-batches", f"{entered}")


def _pieces(
    forwards: Sequence[tuple[int, Numbers, int]], starts: Sequence[int], N: int, M: int, wrong: Blame
) -> list[Numbers]:
    """The micro-batches that entered stage 0."""
    if not forwards:
        raise wrong("no-calls", "No layer of `net` ran. The stages are made of net's own layers, not of others.")
    everybody = {float(number) for number in range(1, N + 1)}
    by_stage = [{number for layer, numbers, _ in forwards if layer == start for number in numbers} for start in starts]
    pieces = [numbers for layer, numbers, _ in forwards if layer == 0]
    sizes = f"micro-batches of {', '.join(str(len(piece)) for piece in pieces) or 'none'}"
    count = min(N, M)
    expected = f"{count} micro-batch{'es' * (count > 1)} of {_sizes(N, count)}"
    if len(starts) > 1 and all(seen < everybody for seen in by_stage) and set().union(*by_stage) == everybody:
        because = (
            "The stages share the samples among them. In a pipeline they share the layers: every micro-batch passes "
            "through every stage, one after another."
        )
        raise wrong("stages-share", because)
    if () in pieces:
        because = "An empty micro-batch went through the stages. If N < M there are N micro-batches of one sample each."
        raise wrong("empty-piece", because, expected, sizes)
    flat = [number for piece in pieces for number in piece]
    if set(flat) - everybody - {0.0}:
        because = "What enters the first stage is not the batch: its values were changed on the way in."
        raise wrong("changed", because)
    if len(set(pieces)) < len(pieces):
        because = "Stage 0 ran more than once in the forward for the same micro-batch."
        raise wrong("twice-forward", because, f"{count} calls", f"{len(pieces)} calls")
    if len(pieces) > 1 and any(set(piece) == everybody for piece in pieces):
        because = (
            "The whole batch went through the stages as well as its micro-batches. Then everything is computed twice, "
            "and what a stage keeps is as large as without micro-batches."
        )
        raise wrong("whole-batch-too", because, expected, sizes)
    if len(set(flat)) < len(flat) or 0.0 in flat:
        because = (
            "The batch was filled up with samples that are not in it, so that all micro-batches are equally large. "
            "They change the gradients; a micro-batch may have one sample fewer instead."
        )
        raise wrong("padded", because, expected, sizes)
    if set(flat) != everybody:
        because = (
            "Some samples never entered the pipeline. All M micro-batches have to, and together they are the batch."
        )
        raise wrong("dropped", because, f"{N} samples", f"{len(flat)} samples")
    if len(pieces) == 1 < count:
        raise wrong("not-cut", "The whole batch went through in one piece. Cut it: M micro-batches.", expected, sizes)
    lengths = [len(piece) for piece in pieces]
    if len(pieces) > count:
        because = "These are more than M micro-batches: the remainder became one of its own."
        raise wrong("too-many-pieces", because, expected, sizes)
    if len(pieces) < count or max(lengths) - min(lengths) > 1:
        because = (
            "Sizes of micro-batches differ by at most one, and there are M of them if N allows. `torch.chunk` and "
            "`x.split` make equal ones and leave what is left to the last, or make fewer."
        )
        raise wrong("chunk", because, expected, sizes)
    return pieces


def _sizes(N: int, count: int) -> str:
    return ", ".join(str(N // count + (m < N % count)) for m in range(count))


def _stage_calls(
    forwards: Sequence[tuple[int, Numbers, int]],
    starts: Sequence[int],
    layers: int,
    name: dict[Numbers, int],
    wrong: Blame,
) -> list[tuple[int, int]]:
    """(micro-batch, stage) in the order in which the calls began; layers of one stage run one after another."""
    ends = [*starts[1:], layers]
    order: list[tuple[int, int]] = []
    now: dict[int, tuple[int, Numbers]] = {}  # per thread, the last layer and its micro-batch
    cut = (
        "The layers of one stage did not run together, in the order they have in `net`. The balance says how many "
        "layers each stage has; a stage takes a micro-batch through all of them in one call."
    )
    for layer, numbers, thread in forwards:
        if numbers not in name:
            if all(number in {n for piece in name for n in piece} for number in numbers):
                because = (
                    "Between two stages the micro-batches were joined or cut anew. The next stage would have to wait "
                    "for all of them; hand each one on as it is."
                )
                raise wrong("joined-between", because)
            because = (
                "What enters a stage is not what left the one in front: values were changed between them. Activations "
                "cross a boundary as they are."
            )
            raise wrong("changed-between", because)
        if layer in starts:
            order.append((name[numbers], starts.index(layer)))
        elif now.get(thread) != (layer - 1, numbers):
            raise wrong("other-cut", cut)
        now[thread] = layer, numbers
    K, M = len(starts), len(name)
    count = Counter((layer, numbers) for layer, numbers, _ in forwards)
    if any(
        count[end - 1, piece] < count[start, piece] for start, end in zip(starts, ends, strict=True) for piece in name
    ):
        raise wrong("other-cut", cut)
    if len(set(order)) < len(order):
        because = "A stage ran twice for the same micro-batch in the forward. The second time belongs to the backward."
        raise wrong("twice-forward", because, f"{K * M} calls of a stage", f"{len(order)}")
    if len(order) < K * M:
        because = "A micro-batch has not been through all stages."
        raise wrong("skips-a-stage", because, f"{K * M} calls of a stage", f"{len(order)}")
    return order


def _judge_order(order: Sequence[tuple[int, int]], K: int, M: int, wrong: Blame) -> None:
    ticks = [m + k for m, k in order]
    if ticks == sorted(ticks):
        return
    if list(order) == sorted(order, key=lambda call: (call[1], call[0])):
        slip = "stage-by-stage"
        because = (
            "The stages ran one after another, each for all micro-batches. Then the last device gets nothing to do "
            "until the first one has done everything. In tick t, stage k takes micro-batch t - k."
        )
    elif list(order) == sorted(order):
        slip = "one-by-one"
        because = (
            "Each micro-batch went through all stages before the next one entered. So the first device waits while "
            "the others work. In tick t, stage k takes micro-batch t - k."
        )
    else:
        slip, because = (
            "order",
            "The calls are not in the order of the clock: all calls of a tick come before those of the next one. "
            "Micro-batch m is on stage k in tick m + k.",
        )
    right = [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]
    mine = handed_out(order)
    charts = (
        Chart("yours, one call waits at most", "", ticks=mine),
        Chart("by the clock", "", ticks=right),
    )
    raise wrong(slip, because, f"{len(right)} ticks, {_words(right)}", f"{len(mine)} ticks, {_words(mine)}", charts)


def _words(ticks: Sequence[Sequence[tuple[int, int]]]) -> str:
    calls = [f"F{m}@{k}" for tick in ticks for m, k in tick]
    return " ".join(calls[:6]) + (" ..." if len(calls) > 6 else "")
