"""One unit of work: what a device does to one micro-batch in one stage.

A schedule consists of lists of these, so an op is plain data: a tuple of a letter and two numbers that can be
compared, sorted, hashed, written to a file and typed by hand.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gpipe_edu.base.validate import whole

KINDS: Final[dict[str, str]] = {
    "F": "forward",
    "B": "backward",
    "R": "recompute",
    "C": "checkpointed backward",
    "I": "input gradient",
    "W": "weight gradient",
}
"""Every kind of op and its name."""

MOST_STAGES: Final = 4096
MOST_MICRO_BATCHES: Final = 65_536
"""Of what is read from files: a larger number is a slip, and would fill the memory before that was noticed."""

SENDS_GRADIENT: Final = frozenset("BCI")
"""Kinds that wait for the gradient from the next stage and produce the one for the stage in front."""

FINISHES: Final = frozenset("BCW")
"""Kinds after which a stage holds nothing more of the micro-batch."""


class _Fields(NamedTuple):
    kind: str
    micro_batch: int
    stage: int


class Op(_Fields):
    """`Op(kind, micro_batch, stage)`: one op; indices count from 0.

    kind is one of "F" forward, "B" backward, "R" recompute (needs only its own F), "C" checkpointed backward
    (recompute and backward as one op that waits for the gradient), "I" input gradient, "W" weight gradient.

    Raises TypeError for an index that is not an integer, ValueError for an unknown kind or a negative index.
    """

    __slots__ = ()

    def __new__(cls, kind: str, micro_batch: int, stage: int) -> Op:  # noqa: D102 (the class docstring is its)
        if not isinstance(kind, str) or kind not in KINDS:
            known = ", ".join(f'"{letter}" {name}' for letter, name in KINDS.items())
            raise ValueError(f"Op kind is {kind!r}; it must be one of {known}")
        # `type(...) is int` first: it is the common case, and schedules have tens of thousands of ops.
        if not (type(micro_batch) is int and type(stage) is int):
            micro_batch, stage = whole("Op micro_batch", micro_batch, 0), whole("Op stage", stage, 0)
        if micro_batch < 0 or stage < 0:
            name, value = ("micro_batch", micro_batch) if micro_batch < 0 else ("stage", stage)
            raise ValueError(f"Op {name} is {value}; indices count from 0, so use 0 or more")
        return tuple.__new__(cls, (kind, micro_batch, stage))

    @property
    def label(self) -> str:
        """Letter and micro-batch, as drawn in a chart: "F3"."""
        return f"{self.kind}{self.micro_batch}"

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch}@{self.stage}"
