"""Well-known schedules, each written as the idea it is.

Every recipe is a rule for one device; the schedule is that rule for all devices. K stages, M micro-batches,
V stages per device, indices from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from inspect import signature
from itertools import chain, pairwise
from typing import Final, NamedTuple

from gpipe_edu.base.validate import whole

from .op import Op
from .schedule import Schedule

MOST: Final = 1_000_000
"""The most that K x M x V may be, and a fifth of the most ops: more take minutes to build and gigabytes to keep."""


def naive(K: int, M: int) -> Schedule:
    """Model parallelism without a pipeline: one micro-batch at a time goes all the way forward and back.

    Only one device works at any moment. Raises ValueError unless K >= 1 and M >= 1.
    """
    K, M, _ = _counts(K, M)

    def device(k: int) -> Iterable[Op]:
        for m in range(M):
            yield Op("F", m, k)
            yield Op("B", m, k)

    return _build("naive", K, device)


def gpipe(K: int, M: int, recompute: str | None = None) -> Schedule:
    """GPipe: every forward, then every backward in the paper's order M-1..0 (arXiv 1811.06965, figure 2).

    recompute: None keeps all activations; "late" re-materializes when the gradient has come (C); "early" does it
    while the gradient is on its way (R, then B). Raises ValueError for another value, K < 1 or M < 1.
    """
    ways = {None: ["B"], "late": ["C"], "early": ["R", "B"]}
    if not (recompute is None or isinstance(recompute, str)) or recompute not in ways:
        raise ValueError(f'recompute is {recompute!r}; it must be None, "late" or "early"')
    K, M, _ = _counts(K, M)

    def device(k: int) -> Iterable[Op]:
        yield from (Op("F", m, k) for m in range(M))
        for m in reversed(range(M)):
            yield from (Op(kind, m, k) for kind in ways[recompute])

    return _build("gpipe" if recompute is None else f"gpipe {recompute} recompute", K, device)


def one_f_one_b(K: int, M: int) -> Schedule:
    """1F1B: as soon as a micro-batch can go back, it does, so device k holds at most min(M, K-k) of them.

    With even stages and free links a step takes as long as with `gpipe`, with uneven ones no longer; over slow links it
    may take longer.

    Raises ValueError unless K >= 1 and M >= 1.
    """
    K, M, _ = _counts(K, M)

    def device(k: int) -> Iterable[Op]:
        return _alternate(K, M, k, lambda m: [Op("B", m, k)])

    return _build("1f1b", K, device)


def interleaved(K: int, M: int, V: int, groups: str = "equal") -> Schedule:
    """Interleaved 1F1B: device k holds the V stages k, K+k, 2K+k, ...; K is the number of devices.

    Micro-batches travel in groups of K: a group passes through one stage of each device, then through the next, so
    a device soon has work again. The warm-up is Megatron-LM's (Narayanan et al. 2021, arXiv 2104.04473).
    The idle time is V times smaller than that of 1F1B, and a little over V times as many boundaries are sent.

    groups: where M is no multiple of K, "equal" has M // K groups, as equal as can be; PyTorch takes M only where they
    are all equal. "full" has groups of K, and leaves out of the last one the micro-batches that do not exist;
    Megatron-LM refuses a last group shorter than K. With "full" a step is never shorter, as devices wait where those
    are missing; with "equal", groups are larger, so more is in flight. K = 8, M = 9, V = 3 takes 131 units in groups of
    8 (F = 1, B = 2, of one stage) and 102 in one of 9, while device 0 holds 25 and 27 micro-batches of one stage; just
    below M = 2 K it may hold half as many again.

    Raises ValueError unless K, M and V are at least 1, or for other `groups`.
    """
    K, M, V = _counts(K, M, V)
    if groups not in ("equal", "full"):
        raise ValueError(f'groups is {groups!r}; it must be "equal" or "full"')
    cut = _equal_groups(K, M)
    if groups == "full":
        full = -(-M // K) * K
        _check_ops(f"interleaved V={V}", K, 2 * V * full * K)
        cut = [range(first, first + K) for first in range(0, full, K)]
    return _interleave(f"interleaved V={V}", K, V, cut).first(M)


def combined_one_f_one_b(K: int, M: int, V: int) -> Schedule:
    """Combined 1F1B: `interleaved` with one more warm-up forward, so that forward and backward may run as one block.

    After the warm-up each forward and the backward after it are of two micro-batches, so that one computes while the
    other sends what its experts exchange. That is what DualPipe is for; here it takes as many devices, but each
    parameter only once, and one more micro-batch of one stage in flight. Megatron Core has it from 0.14 on, with expert
    parallelism only; Kimi K2 (arXiv 2507.20534) was trained this way, since DualPipe holds parameters and gradients
    twice. If nothing of a block overlaps, a step takes as long as with `interleaved`.

    Raises ValueError unless K, M and V are at least 1.
    """
    K, M, V = _counts(K, M, V)
    return _interleave(f"combined 1F1B V={V}", K, V, _equal_groups(K, M), combined=True)


def interleaved_zero_bubble(K: int, M: int, V: int) -> Schedule:
    """Interleaved ZB-H1: the stages and groups of `interleaved`, each B split, and fewer forwards to warm up.

    Device k has K-1-k fewer of these, and puts off its weight gradients by k ops, as in `zero_bubble`, which this is
    for V = 1. Where W is no longer than F or I, the idle time is V times smaller than that of `zero_bubble`: see
    `formulas.makespan_interleaved_zero_bubble`. PyTorch's ScheduleInterleavedZeroBubble has the same order; it takes M
    only where its groups are equal.

    Raises ValueError unless K, M and V are at least 1.
    """
    K, M, V = _counts(K, M, V)
    cut = _equal_groups(K, M)
    forwards, backwards = _through_stages(cut, V)

    def device(k: int) -> Iterable[Op]:
        warm_up = K - 1 - k + (V - 1) * len(cut[0])
        forward = [Op("F", m, v * K + k) for m, v in forwards]
        weight = [Op("W", m, v * K + k) for m, v in backwards]
        yield from forward[:warm_up]
        for index, (m, v) in enumerate(backwards):
            yield from forward[warm_up + index : warm_up + index + 1]
            yield Op("I", m, v * K + k)
            if index >= k:
                yield weight[index - k]
        yield from weight[max(0, len(weight) - k) :]

    return _build(f"interleaved zero bubble V={V}", K, device)


def breadth_first(K: int, M: int, V: int) -> Schedule:
    """Looped and breadth first: as interleaved, but all micro-batches pass a stage before the device takes its next.

    The bubble is that of interleaved 1F1B for M >= K. All micro-batches stay in flight, as in GPipe; in return a device
    stays with one stage, so what replicas or shards exchange for each stage is sent once and can overlap with compute
    (Lamy-Poirier 2022, arXiv 2211.05953). PyTorch's ScheduleLoopedBFS begins its backwards with the last micro-batch,
    where this begins with the first: with all forwards done, that changes no time.

    Raises ValueError unless K, M and V are at least 1.
    """
    K, M, V = _counts(K, M, V)

    def device(k: int) -> Iterable[Op]:
        yield from (Op("F", m, v * K + k) for v in range(V) for m in range(M))
        yield from (Op("B", m, v * K + k) for v in reversed(range(V)) for m in range(M))

    return _build(f"breadth first V={V}", K, device)


def zero_bubble(K: int, M: int) -> Schedule:
    """ZB-H1: B split into I, which the stage in front waits for, and W, which no other op waits for.

    Device k puts off its weight gradients by k micro-batches, so they fill the end of the step where 1F1B idles.
    Every device then holds at most min(M, K) micro-batches, as device 0 of 1F1B does (Qi et al., arXiv 2401.10241).
    That is as many bytes only where a waiting W needs no more than B would keep; layers that keep input and output
    gradient for it, as ours do, need more.

    Raises ValueError unless K >= 1 and M >= 1.
    """
    K, M, _ = _counts(K, M)

    def device(k: int) -> Iterable[Op]:
        def back(m: int) -> Iterable[Op]:
            yield Op("I", m, k)
            if m >= k:
                yield Op("W", m - k, k)

        yield from _alternate(K, M, k, back)
        yield from (Op("W", m, k) for m in range(max(0, M - k), M))

    return _build("zero bubble", K, device)


def zero_bubble_v(K: int, M: int) -> Schedule:
    """ZB-V: device k holds the stages k and 2K-1-k, so that micro-batches go down all devices and up again.

    The last device hands its output to itself, and the first one computes the loss: gradients come back early. If F, I
    and W take equally long, no device waits between its first and its last op from M = 2K-1 on, and each holds at most
    2K micro-batches of its two half-size stages, as much as device 0 of 1F1B (Qi et al., arXiv 2401.10241, section 6).

    Raises ValueError unless K >= 1 and M >= 1.
    """
    K, M, _ = _counts(K, M)
    full = max(M, 2 * K - 1)
    _check_ops("zero bubble V", K, 6 * full * K)

    def device(k: int) -> Iterable[Op]:
        down, up = k, 2 * K - 1 - k
        turns = [("F", down)] * (2 * (K - k) - 1)
        turns += [("F", up), ("F", down)] * k
        turns += [(kind, up) for kind in "FIW"] * (K - k)
        turns += [(kind, stage) for stage in (down, up) for kind in "FIW"] * (full - K)
        turns += [("I", down), ("I", up)] * k
        turns += [("I", down), ("W", down)] * (K - k)
        turns += [("W", up)] * full + [("W", down)] * full
        done = dict.fromkeys(turns, 0)
        for kind, stage in turns:
            if done[kind, stage] < full:  # a kind that is through on this stage is left out of the later turns
                yield Op(kind, done[kind, stage], stage)
                done[kind, stage] += 1

    return _build("zero bubble V", K, device).first(M)


def dual_pipe_v(K: int, M: int) -> Schedule:
    """DualPipeV: the stages of ZB-V, and in the middle a forward beside each backward that goes the other way.

    The two of such a pair run as one block: one computes while the other sends, which hides what experts exchange. If
    F = I = W and M >= 2K, the last device idles (K-1) (F&B + B - 3W), with F&B the time of a block, all of one stage:
    DeepSeek's formula for DualPipe on P = 2K devices. DualPipe needs every parameter twice for that, DualPipeV once, on
    half the devices (DeepSeek, 2025, github.com/deepseek-ai/DualPipe). PyTorch's ScheduleDualPipeV has the same order
    and pairs; it takes no M < 2K, for which the micro-batches that do not exist are left out here.

    Raises ValueError unless K >= 1 and M >= 1.
    """
    K, M, _ = _counts(K, M)
    full = max(M, 2 * K)
    # Device k splits 2K - 1 - k of its backwards into I and W.
    _check_ops("DualPipeV", K, 4 * full * K + K * (3 * K - 1) // 2)

    def device(k: int) -> Iterable[Op]:
        down, up = k, 2 * K - 1 - k
        turns = [("F", down)] * (2 * (K - 1 - k)) + [("F", down), ("F", up)] * (k + 1)
        turns += [("I", up), ("W", up), ("F", up)] * (K - 1 - k)
        turns += [("F", down), ("B", up), ("F", up), ("B", down)] * (full - 2 * K + k + 1)
        turns += [("B", up), ("F", up), ("B", down)] * (K - 1 - k)
        last = [up, down] * (k + 1)
        turns += [("B", stage) for stage in last[: k + 1]] + [("I", stage) for stage in last[k + 1 :]]
        turns += [("W", down), ("I", down)] * (K - 1 - k) + [("W", down)] * (k + 1)
        forwards, backwards = {down: 0, up: 0}, {down: 0, up: 0}
        waiting: list[Op] = []  # each W is that of the input gradient that has waited longest
        for kind, stage in turns:
            if kind == "W":
                yield waiting.pop(0)
                continue
            done = forwards if kind == "F" else backwards
            yield Op(kind, done[stage], stage)
            if kind == "I":
                waiting.append(Op("W", done[stage], stage))
            done[stage] += 1

    order = _build("DualPipeV", K, device)
    pairs = [[pair for pair in pairwise(row) if (pair[0].kind, pair[1].kind) == ("F", "B")] for row in order.rows]
    del pairs[-1][0]  # it would be the last device's first block, for which others would wait
    return Schedule(order, pairs=chain(*pairs)).first(M)


def _counts(K: int, M: int, V: int = 1) -> tuple[int, int, int]:
    """The three, checked; ValueError or TypeError for what is no count, or more than anybody's step has."""
    K, M, V = whole("K", K, 1), whole("M", M, 1), whole("V", V, 1)
    if K * M * V > MOST:
        raise ValueError(
            f"K = {K:,}, M = {M:,} and V = {V:,} are {K * M * V:,} forwards; a schedule has at most {MOST:,}"
        )
    return K, M, V


def _equal_groups(K: int, M: int) -> list[range]:
    """The M micro-batches in M // K groups, at least one, whose sizes differ by at most one; the larger ones first."""
    groups = max(1, M // K)
    size, larger = divmod(M, groups)
    firsts = [index * size + min(index, larger) for index in range(groups + 1)]
    return [range(first, end) for first, end in pairwise(firsts)]


def _through_stages(groups: Iterable[range], V: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(micro-batch, v) of a device's forwards and of its backwards, in order; v counts its stages."""
    forwards = [(m, v) for group in groups for v in range(V) for m in group]
    backwards = [(m, v) for group in groups for v in reversed(range(V)) for m in group]
    return forwards, backwards


def _interleave(name: str, K: int, V: int, groups: Sequence[range], combined: bool = False) -> Schedule:
    """Interleaved 1F1B. combined: with one more warm-up forward, and then each forward in a block with a backward."""
    forwards, backwards = _through_stages(groups, V)
    rows, pairs = [], []
    for k in range(K):
        warm_up = 2 * (K - 1 - k) + (V - 1) * len(groups[0]) + combined
        forward = [Op("F", m, v * K + k) for m, v in forwards]
        backward = [Op("B", m, v * K + k) for m, v in backwards]
        together = list(zip(forward[warm_up:], backward, strict=False))
        rows.append([*forward[:warm_up], *chain(*together), *backward[len(together) :]])
        pairs += together if combined else []
    return Schedule(rows, name, pairs)


def _alternate(K: int, M: int, k: int, back: Callable[[int], Iterable[Op]]) -> Iterable[Op]:
    """Forwards until device k is full, then `back(m)` and one forward more, in turn."""
    warm_up = min(M, K - 1 - k)
    yield from (Op("F", m, k) for m in range(warm_up))
    for m in range(M):
        if warm_up + m < M:
            yield Op("F", warm_up + m, k)
        yield from back(m)


def _check_ops(name: str, K: int, ops: int) -> None:
    """Raises ValueError, before anything is built, where a rule goes through more ops than a schedule may have; it may
    go through more than it keeps, as it leaves out those of micro-batches that do not exist."""
    if ops > 5 * MOST:
        raise ValueError(f"{name} on K = {K:,} devices has more than {5 * MOST:,} ops; choose fewer devices")


def _build(name: str, K: int, device: Callable[[int], Iterable[Op]]) -> Schedule:
    """The rule `device` for each of K devices. The name contains what tells one schedule from another."""
    return Schedule([list(device(k)) for k in range(K)], name=name)


RECIPES: Final[dict[str, Callable[..., Schedule]]] = {
    "naive": naive,
    "gpipe": gpipe,
    "gpipe-late": lambda K, M: gpipe(K, M, "late"),
    "gpipe-early": lambda K, M: gpipe(K, M, "early"),
    "1f1b": one_f_one_b,
    "interleaved": lambda K, M, V=2: interleaved(K, M, V),
    "combined_1f1b": lambda K, M, V=2: combined_one_f_one_b(K, M, V),
    "breadth_first": lambda K, M, V=2: breadth_first(K, M, V),
    "zero_bubble": zero_bubble,
    "interleaved_zero_bubble": lambda K, M, V=2: interleaved_zero_bubble(K, M, V),
    "zero_bubble_v": zero_bubble_v,
    "dual_pipe_v": dual_pipe_v,
}
"""The recipes by the names that command lines, engines and the explorer take.

Each builds a schedule from K >= 1 and M >= 1; one whose devices hold any number of stages has a V with a default.
"""


class Form(NamedTuple):
    """What an explorer or an engine has to know about a recipe before it builds a large schedule."""

    takes_V: bool
    stages: int
    """How many each device has; where V sets that, for the default V."""
    splits: bool
    """Whether backwards are I and W."""
    recomputes: bool
    pairs: bool = False
    """Whether some forwards and backwards run as one block."""


def form_of(name: str) -> Form:
    """The form of `RECIPES[name]`, found from its parameters and from a small schedule that it builds."""
    return _form(RECIPES[name])


@cache  # an explorer asks for each chart of its page
def _form(recipe: Callable[..., Schedule]) -> Form:
    small = recipe(2, 4)  # with fewer micro-batches DualPipeV has no pairs
    kinds = {op.kind for row in small.rows for op in row}
    takes_V, again = "V" in signature(recipe).parameters, not kinds.isdisjoint("RC")
    return Form(takes_V, small.stages // 2, "W" in kinds, again, bool(small.pairs))


def by_name(name: str, K: int, M: int) -> Schedule:
    """The recipe of that name for K devices and M micro-batches. Raises ValueError for an unknown name."""
    found = recipe_name(name)
    if found is None:
        raise ValueError(f"schedule is {name!r}; it must be one of {', '.join(RECIPES)}")
    return RECIPES[found](K, M)


def recipe_name(name: str) -> str | None:
    """The key of `RECIPES` that is meant: case does not matter, nor whether words are joined by - or _."""
    meant = name.lower().replace("_", "-")
    return next((known for known in RECIPES if known.replace("_", "-") == meant), None)
