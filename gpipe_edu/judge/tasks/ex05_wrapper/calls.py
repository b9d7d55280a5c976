"""What a pipeline did with its batch, read from the calls of its layers: the cut, the stages, the order, the recompute.

The most telling signs are tried first: after a wrong cut, the order tells a learner nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import NamedTuple, TypeAlias

from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.findings import Chart
from gpipe_edu.judge.traced_runs import Trail
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.timeline.single_thread import dispatch_calls

Piece: TypeAlias = tuple[float, ...]
"""A micro-batch: the numbers of its samples, which begin at 1."""

Cell: TypeAlias = tuple[int, int]
"""A micro-batch on a stage, both by number."""


class Call(NamedTuple):
    """What one layer did for some samples.

    kind: "F" in the forward, "R" for a forward that runs within the backward, "B" when the layer's gradient arrives.
    again: whether a "B" relied on what an "R" had computed. dropped: the values that a dropout has dropped.
    """

    kind: str
    layer: int
    samples: Piece
    thread: int = 0
    grad: bool = True
    dropped: str = ""
    again: bool = False


def calls_of(trail: Trail, steps: int) -> list[list[Call]]:
    """The calls of each step."""
    found: list[list[Call]] = [[] for _ in range(steps)]
    for run in trail.runs:
        if run.step < 0:  # of the net, before the pipeline got a mini-batch
            continue
        if run.kind == "B":
            call = Call("B", run.place, run.samples, again=all(map(trail.is_repeated, run.sources)))
        else:
            call = Call("FRR"[run.phase], run.place, run.samples, *run.seen)
        found[run.step].append(call)
    return found


@dataclass(frozen=True)
class LayerCalls:
    """The calls of the layers in one step of N samples in M micro-batches."""

    noted: Sequence[Call]
    balance: Sequence[int]
    N: int
    M: int

    @property
    def K(self) -> int:
        """How many stages there are."""
        return len(self.balance)

    @property
    def count(self) -> int:
        """How many micro-batches there should be."""
        return min(self.N, self.M)

    @cached_property
    def starts(self) -> list[int]:
        """The first layer of each stage."""
        return [0, *accumulate(self.balance)][:-1]

    @cached_property
    def forwards(self) -> list[tuple[int, Piece, int]]:
        """Layer, samples and thread of each forward."""
        return [(call.layer, call.samples, call.thread) for call in self.noted if call.kind == "F"]

    @cached_property
    def pieces(self) -> list[Piece]:
        """The micro-batches that entered stage 0."""
        return [numbers for layer, numbers, _ in self.forwards if layer == 0]

    @cached_property
    def number(self) -> dict[Piece, int]:
        """The number of each micro-batch."""
        return {piece: m for m, piece in enumerate(sorted(self.pieces))}

    @cached_property
    def order(self) -> list[Cell]:
        """The forwards of stages, in the order in which they began."""
        starts = self.starts
        return [(self.number[piece], starts.index(layer)) for layer, piece, _ in self.forwards if layer in starts]

    @cached_property
    def reruns(self) -> list[tuple[int, Piece]]:
        """Layer and samples of each forward within the backward."""
        return [(call.layer, call.samples) for call in self.noted if call.kind == "R"]

    @cached_property
    def recomputed(self) -> Counter[Cell]:
        """How often each cell was recomputed."""
        starts, number = self.starts, self.number
        return Counter((number.get(piece, -1), starts.index(layer)) for layer, piece in self.reruns if layer in starts)

    @property
    def schedule(self) -> Schedule:
        """As a schedule with a device for each stage: a backward that recomputes is a C."""
        ends = {start + count - 1: k for k, (start, count) in enumerate(zip(self.starts, self.balance, strict=True))}
        ops = [Op("F", m, k) for m, k in self.order]
        for call in self.noted:
            if call.kind == "B" and call.layer in ends:
                run = self.number[call.samples], ends[call.layer]
                ops.append(Op("C" if self.recomputed[run] else "B", *run))
        return Schedule([[op for op in ops if op.stage == k] for k in range(self.K)], name="your calls")


def signs(calls: LayerCalls) -> Signs:
    """Of a forward: the cut, the stages, the order."""
    yield from _about_the_samples(calls)
    yield from _about_sizes(calls)
    yield from _about_stages(calls)
    yield from _about_the_order(calls)


def cut_anew(calls: LayerCalls, before: int) -> Sign:
    """Whether the cut of an earlier mini-batch, of `before` samples, was used again."""
    entered = len(calls.pieces)
    largest = -(-calls.N // calls.M)
    as_chunks = entered == -(-calls.N // largest)  # so few for another reason, which `signs` tells
    kept = entered == min(before, calls.M) < calls.count and not as_chunks
    expected, came = plural(calls.count, "micro-batch"), str(entered)
    return Sign("M-changed", kept, expected, came, words={"before": before})


def _cut_in_words(calls: LayerCalls) -> tuple[str, str]:
    """The cut as expected, and as it came."""
    sizes = join_words(calls.N // calls.count + (m < calls.N % calls.count) for m in range(calls.count))
    came = join_words(len(piece) for piece in calls.pieces) or "none"
    return f"{plural(calls.count, 'micro-batch')} of {sizes}", f"micro-batches of {came}"


def _about_the_samples(calls: LayerCalls) -> Signs:
    """Which samples entered the stages."""
    pieces, cuts = calls.pieces, _cut_in_words(calls)
    everybody = {float(number) for number in range(1, calls.N + 1)}
    by_stage = [{n for layer, piece, _ in calls.forwards if layer == start for n in piece} for start in calls.starts]
    shared = len(by_stage) > 1 and all(seen < everybody for seen in by_stage)
    yield Sign("stages-share", shared and set().union(*by_stage) == everybody)
    yield Sign("empty-piece", () in pieces, *cuts)
    flat = [number for piece in pieces for number in piece]
    yield Sign("changed", bool(set(flat) - everybody - {0.0}))
    twice = (plural(calls.count, "call"), plural(len(pieces), "call"))
    yield Sign("twice-forward", len(set(pieces)) < len(pieces), *twice)
    yield Sign("whole-batch-too", len(pieces) > 1 and any(set(piece) == everybody for piece in pieces), *cuts)
    yield Sign("padded", len(set(flat)) < len(flat) or 0.0 in flat, *cuts)
    yield Sign("dropped", set(flat) != everybody, plural(calls.N, "sample"), plural(len(flat), "sample"))


def _about_sizes(calls: LayerCalls) -> Signs:
    """How many micro-batches there are, and which samples are in each."""
    pieces, count, cuts = calls.pieces, calls.count, _cut_in_words(calls)
    sizes = [len(piece) for piece in pieces]
    yield Sign("not-cut", len(pieces) == 1 < count, *cuts)
    yield Sign("too-large", max(sizes) > -(-calls.N // count), *cuts)
    yield Sign("too-many-pieces", len(pieces) > count, *cuts)
    yield Sign("chunk", len(pieces) < count or max(sizes) - min(sizes) > 1, *cuts)
    yield Sign("dealt", any(b - a != 1 for piece in pieces for a, b in pairwise(piece)))


def _about_stages(calls: LayerCalls) -> Signs:
    """Whether every micro-batch went through all stages, as it was, and through each one's layers in one go."""
    known = {n for piece in calls.pieces for n in piece}
    now: dict[int, tuple[int, Piece]] = {}  # per thread, the last layer and its micro-batch
    for layer, piece, thread in calls.forwards:
        yield Sign("joined-between", piece not in calls.number and known.issuperset(piece))
        yield Sign("changed-between", piece not in calls.number)
        yield Sign("other-cut", layer not in calls.starts and now.get(thread) != (layer - 1, piece))
        now[thread] = layer, piece
    often = Counter((layer, piece) for layer, piece, _ in calls.forwards)
    ends = [start + count - 1 for start, count in zip(calls.starts, calls.balance, strict=True)]
    halfway = (
        often[end, p] < often[start, p] for start, end in zip(calls.starts, ends, strict=True) for p in calls.number
    )
    yield Sign("other-cut", any(halfway))
    counts = (plural(calls.K * len(calls.pieces), "call") + " of a stage", str(len(calls.order)))
    yield Sign("twice-forward", len(set(calls.order)) < len(calls.order), *counts)
    yield Sign("skips-a-stage", len(calls.order) < calls.K * len(calls.pieces), *counts)


def _about_the_order(calls: LayerCalls) -> Signs:
    order, K, M = calls.order, calls.K, len(calls.pieces)
    ticks = [m + k for m, k in order]
    if ticks == sorted(ticks):
        return
    right, mine = [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)], dispatch_calls(order)
    charts = Chart("yours, one call waits at most", "", ticks=mine), Chart("by the clock", "", ticks=right)
    expected, came = (f"{len(ticks)} ticks, {_in_words(ticks)}" for ticks in (right, mine))
    by_stage = order == sorted(order, key=lambda run: (run[1], run[0]))
    yield Sign("stage-by-stage", by_stage, expected, came, charts=charts)
    yield Sign("one-by-one", order == sorted(order), expected, came, charts=charts)
    yield Sign("order", True, expected, came, charts=charts)


def _in_words(ticks: Sequence[Sequence[Cell]]) -> str:
    calls = [f"F{m}@{k}" for tick in ticks for m, k in tick]
    return " ".join(calls[:6]) + (" ..." if len(calls) > 6 else "")


def about_recompute(calls: LayerCalls, checkpoint: str) -> Signs:
    """Whether the micro-batches that `checkpoint` names were recomputed."""
    count, K, found = len(calls.pieces), calls.K, set(calls.recomputed)
    everything = set(product(range(count), range(K)))
    last = {(count - 1, k) for k in range(K)}
    expected = {"always": everything, "except_last": everything - last, "never": set[Cell]()}[checkpoint]
    both = (_listed(expected), _listed(found))
    alone = any(
        layer not in calls.starts and before != (layer - 1, piece)
        for before, (layer, piece) in pairwise([(-1, ()), *calls.reruns])
    )
    yield Sign("layer-by-layer", alone)
    yield Sign("recomputed-twice", any(often > 1 for often in calls.recomputed.values()), *both)
    if found == expected:
        stage = [k for k, count in enumerate(calls.balance) for _ in range(count)]
        backwards = [call for call in calls.noted if call.kind == "B"]
        in_vain = {(calls.number.get(call.samples, -1), stage[call.layer]) for call in backwards if not call.again}
        yield Sign("recomputed-in-vain", bool(in_vain & expected), "backwards that use what is recomputed", "others")
        return
    yield Sign("recompute-never", checkpoint == "never", *both)
    yield Sign("keeps-everything", not found, *both)
    yield Sign("first-stage", found == {(m, k) for m, k in expected if k > 0}, *both)
    yield Sign("not-always", checkpoint == "always", *both)
    yield Sign("last-of-M", count < calls.M and found == everything, *both)
    yield Sign("last-too", found == everything, *both)
    yield Sign("only-last", found == last, *both)
    yield Sign("last-stage", found == {(m, k) for m, k in everything if k < K - 1}, *both)
    yield Sign("except-first", found == {(m, k) for m, k in everything if m > 0}, *both)
    yield Sign("other-micro-batches", True, *both)


def _listed(runs: set[Cell]) -> str:
    """The recomputed micro-batches of each stage in words."""
    if not runs:
        return "nothing recomputed"
    rows = {k: join_words(sorted(m for m, s in runs if s == k)) for k in sorted({k for _, k in runs})}
    if len(set(rows.values())) == 1:
        return f"micro-batches {next(iter(rows.values()))} recomputed on stages {join_words(rows)}"
    return "; ".join(f"stage {k}: {row}" for k, row in rows.items()) + " recomputed"
