"""What an op waits for: the rules of pipeline parallelism, stated once for doctor, simulator, engines and pictures.

F(m, k)      needs F(m, k-1)                              the activation from the stage in front
R(m, k)      needs F(m, k)                                nothing else: so it may run before the gradient is there
B, C, I(m,k) need  F(m, k), or R(m, k) where there is one,
             and   the B, C or I of (m, k+1)              the gradient from the next stage
W(m, k)      needs I(m, k)

A forward and the backward (B, C or I) after it on its device may run as one block, a pair, as in DualPipeV: one
computes while the other sends. The block starts when both could, so its forward also needs the gradient that its
backward waits for; and what both make leaves together, when both have ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from .op import SENDS_GRADIENT, Op

Cell = tuple[int, int]
"""A micro-batch and a stage."""

Pair = tuple[Op, Op]
"""A forward and the backward after it, which run as one block."""


def is_pair(forward: Op, backward: Op) -> bool:
    """Whether the two may run as one block: the backward does not wait for that forward."""
    return forward.kind == "F" and backward.kind in SENDS_GRADIENT and forward[1:] != backward[1:]


class Needs:
    """`needs(op)`: the ops that must have ended before `op` starts, of those that the schedule has."""

    def __init__(self, ops: Iterable[Op], pairs: Iterable[Pair] = ()) -> None:
        self._beside: dict[Op, Op] = dict(pairs)
        self._forward: dict[Cell, Op] = {}
        self._recompute: dict[Cell, Op] = {}
        self._gradient: dict[Cell, Op] = {}
        for op in ops:
            kind, cell = op[0], op[1:]
            if kind == "F":
                self._forward[cell] = op
            elif kind == "R":
                self._recompute[cell] = op
            elif kind in SENDS_GRADIENT:
                self._gradient[cell] = op

    def __call__(self, op: Op) -> list[Op]:
        """The ops `op` waits for, at most two: its own stage's first, then the neighbour's. The forward of a pair waits
        for the stage in front, then for its backward's gradient."""
        kind, micro_batch, stage = op
        cell = (micro_batch, stage)
        own: Op | None
        neighbour: Op | None = None
        if kind == "F":
            own, neighbour = self._forward.get((micro_batch, stage - 1)), None
            beside = self._beside.get(op)
            if beside is not None:
                neighbour = self._gradient.get((beside[1], beside[2] + 1))
        elif kind == "R":
            own = self._forward.get(cell)
        elif kind == "W":
            own = self._gradient.get(cell)
        else:
            own = self._recompute.get(cell) or self._forward.get(cell)
            neighbour = self._gradient.get((micro_batch, stage + 1))
        return [need for need in (own, neighbour) if need is not None]

    def rematerializes(self, micro_batch: int, stage: int) -> bool:
        """True if this stage keeps only the boundary input of this micro-batch: it has an R or a C."""
        cell = (micro_batch, stage)
        gradient = self._gradient.get(cell)
        return cell in self._recompute or (gradient is not None and gradient.kind == "C")
