"""The closed forms of pipeline parallelism, which give times before anything is simulated.

K stages on K devices, M micro-batches, F, B, R, I, W: time of one op; stages are uniform, micro-batches alike, and
sending costs nothing, unless a function says otherwise: what differs (`Costs(micro_batches=...)`) has to be simulated.
Every function is checked against `simulate` in the tests. Two sources: [G] Huang et al. 2019, GPipe (arXiv 1811.06965),
[Z] Qi et al. 2024, Zero Bubble (arXiv 2401.10241); the rest follows from counting slots in the picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpipe_edu.base.validate import number, numbers, whole


def bubble_fraction(K: int, M: int) -> float:
    """Idle time / all device time of F-then-B and of 1F1B: (K-1) / (M+K-1) [G, section 2.3]."""
    _counts(K=K, M=M)
    return (K - 1) / (M + K - 1)


def bubble_over_ideal(K: int, M: int) -> float:
    """Idle time / ideal time, (K-1) / M: what Megatron-LM quotes, not the same as `bubble_fraction`."""
    _counts(K=K, M=M)
    return (K - 1) / M


def utilization(K: int, M: int) -> float:
    """Busy time / all device time: M / (M+K-1) = 1 - bubble_fraction."""
    return 1 - bubble_fraction(K, M)


def speedup(K: int, M: int) -> float:
    """One device's time / the pipeline's time, both without recompute: K M / (M+K-1)."""
    return K * utilization(K, M)


def makespan(K: int, M: int, F: float = 1, B: float = 2) -> float:
    """Time of a step without recompute, F-then-B or 1F1B: (M+K-1) (F+B)."""
    _counts(K=K, M=M)
    _times(F=F, B=B)
    return (M + K - 1) * (F + B)


def makespan_naive(K: int, M: int, F: float = 1, B: float = 2) -> float:
    """Time of a step when one device works at a time: K M (F+B)."""
    _counts(K=K, M=M)
    _times(F=F, B=B)
    return K * M * (F + B)


def makespan_late(K: int, M: int, F: float = 1, B: float = 2, R: float | None = None) -> float:
    """Time of a step with late recompute, which waits for the gradient: (M+K-1) (F+R+B); R defaults to F."""
    _times(F=F, B=B, R=F if R is None else R)
    return makespan(K, M, F, (F if R is None else R) + B)


def makespan_early(K: int, M: int, F: float = 1, B: float = 2, R: float | None = None) -> float:
    """Time of a step with early recompute, hidden in the wait for the gradient: M (F+R+B) + (K-1) (F+B).

    (K-1) R less than `makespan_late`. It holds for GPipe and for 1F1B, with an R before every B. R defaults to F.
    """
    _times(R=F if R is None else R)
    return makespan(K, M, F, B) + M * (F if R is None else R)


def bubble_fraction_early(K: int, M: int, F: float = 1, B: float = 2, R: float | None = None) -> float:
    """Idle share of a step with early recompute: (K-1) (F+B) / [M (F+R+B) + (K-1) (F+B)]; R defaults to F."""
    total = makespan_early(K, M, F, B, R)
    if not total:
        raise ValueError("F, B and R are all 0, so there is no time to take a share of; give at least one time")
    return (K - 1) * (F + B) / total


def makespan_zero_bubble(K: int, M: int, F: float = 1, I: float = 1, W: float = 1) -> float:  # noqa: E741
    """Time of a step of ZB-H1 for M >= K and W no longer than F or I: M (F+I+W) + (K-1) (F+I-W) [Z, table 2].

    Raises ValueError outside that range, where the time has to be simulated.
    """
    _counts(K=K, M=M)
    _times(F=F, I=I, W=W)
    if K > M or min(F, I) < W:
        raise ValueError(
            f"the closed form of ZB-H1 holds for M >= K, W <= F and W <= I, not for K={K}, M={M}, F={F}, I={I}, W={W}; "
            f"simulate it instead"
        )
    return M * (F + I + W) + (K - 1) * (F + I - W)


def idle_left_by_zero_bubble(F: float = 1, I: float = 1, W: float = 1) -> float:  # noqa: E741
    """Share of 1F1B's idle time that ZB-H1 leaves: (F+I-W) / (F+I+W), for any K and M >= K [Z, table 2].

    A third if F = I = W; more where attention is long, which has no weights and so no W: see `Costs.of_transformer`.
    Raises ValueError where W is longer than F or I, and the time has to be simulated.
    """
    _times(F=F, I=I, W=W)
    if min(F, I) < W:
        raise ValueError(f"the closed form of ZB-H1 holds for W <= F and W <= I, not for F={F}, I={I}, W={W}")
    if not F + I + W:
        raise ValueError("F, I and W are all 0, so there is no time to take a share of; give at least one time")
    return (F + I - W) / (F + I + W)


def makespan_interleaved(K: int, M: int, V: int, F: float = 1, B: float = 2) -> float:
    """Time of a step of interleaved 1F1B, V stages on each of K devices, M a multiple of K: the idle time over V.

    F and B are the times of one stage, of which there are K V: (M V + K-1) (F+B).
    """
    _counts(K=K, M=M, V=V)
    _times(F=F, B=B)
    if M % K:
        raise ValueError(f"the closed form of interleaved 1F1B holds for M a multiple of K, not for K={K}, M={M}")
    return (M * V + K - 1) * (F + B)


def makespan_interleaved_zero_bubble(
    K: int,
    M: int,
    V: int,
    F: float = 1,
    I: float = 1,  # noqa: E741
    W: float = 1,
) -> float:
    """Time of a step of interleaved ZB-H1, V stages on each of K devices: M V (F+I+W) + (K-1) (F+I-W).

    F, I and W are the times of one stage, of which there are K V; in those of a whole device it is
    M (F+I+W) + (K-1) (F+I-W) / V: the idle time of `makespan_zero_bubble` over V. It holds for M a multiple of K and W
    no longer than F or I. Raises ValueError outside that range, where the time has to be simulated.
    """
    _counts(K=K, M=M, V=V)
    _times(F=F, I=I, W=W)
    if M % K or min(F, I) < W:
        raise ValueError(
            f"the closed form of interleaved ZB-H1 holds for M a multiple of K, W <= F and W <= I, not for K={K}, "
            f"M={M}, F={F}, I={I}, W={W}; simulate it instead"
        )
    return M * V * (F + I + W) + (K - 1) * (F + I - W)


def best_micro_batches(K: int, fixed: float, work: float) -> float:
    """The M with the shortest step where a micro-batch costs fixed + work/M on a stage: sqrt((K-1) work / fixed).

    fixed: time that an F and a B together take however small the micro-batch; work: what remains of both for the whole
    mini-batch, on one stage, in the same unit. A step takes (M+K-1) (fixed + work/M) = work + (K-1) fixed + M fixed +
    (K-1) work / M; the last two terms have a product without M, so their sum is smallest where they are equal. Not
    rounded; 0 for K=1, where one micro-batch is best. Raises ValueError if fixed is 0: then the more the better.
    """
    _counts(K=K)
    _times(fixed=fixed, work=work)
    if not fixed:
        raise ValueError(
            "fixed is 0, so every further micro-batch shortens the step; give the fixed time of an F and B"
        )
    return math.sqrt((K - 1) * work / fixed)


def peak_in_flight(K: int, M: int, k: int) -> int:
    """Micro-batches that device k holds at the peak of 1F1B: min(M, K-k). Under F-then-B every device holds M."""
    _counts(K=K, M=M)
    if whole("k", k, 0) >= K:
        raise ValueError(f"k is {k}; the devices are 0 to {K - 1}")
    return min(M, K - k)


def utilization_bound(costs: Sequence[float]) -> float:
    """With uneven stages the slowest sets the rate: utilization is at most sum(c) / (K max c), for any M."""
    times = numbers("costs", costs)
    if not any(times):
        raise ValueError(f"costs are {costs!r}; give one time per stage, at least one of them above 0")
    return sum(times) / (len(times) * max(times))


def peak_memory(L: int, K: int, M: int, boundary: float = 1, layer: float = 1) -> float:
    """Peak activation memory of a device under F-then-B with re-materialization: boundary + (L/K) layer / M.

    boundary: bytes of a stage's input for the whole mini-batch, stored for every micro-batch; layer: bytes that one
    layer stores for the whole mini-batch. Only the second term shrinks with M [G, section 2.3: O(N + (L/K) (N/M))]. How
    much it weighs is r = layer / boundary: 1 for the lessons' MLP, 16 for their Transformer block.
    """
    _counts(L=L, K=K, M=M)
    _times(boundary=boundary, layer=layer)
    return boundary + L / K * layer / M


def recompute_overhead(F: float = 1, B: float = 2) -> float:
    """Extra work of re-materialization, F / (F+B): a third if B = 2 F. As a share of the new step: F / (2F+B)."""
    _times(F=F, B=B)
    if not F + B:
        raise ValueError("F and B are both 0, so there is no work to compare with; give at least one time")
    return F / (F + B)


def _counts(**counts: int) -> None:
    for name, count in counts.items():
        whole(name, count, 1)


def _times(**times: float) -> None:
    for name, time in times.items():
        number(name, time)
