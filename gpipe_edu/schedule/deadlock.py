"""The circle of ops that wait for each other: the doctor puts it into a sentence, pictures draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .op import Op

if TYPE_CHECKING:
    from .schedule import Schedule


class Wait(NamedTuple):
    """`op`, the first on its device that never runs, waits for `need`, which stands behind the `other` device's `head`.

    Where `head` is `need` itself, that op is the next in the circle.
    """

    device: int
    op: Op
    need: Op
    other: int
    head: Op


def links(waits: list[Wait]) -> list[tuple[Op, Op, bool]]:
    """The circle op by op: (op, the one it waits for, False), then (that one, the one it stands behind, True)."""
    found = []
    for wait in waits:
        found.append((wait.op, wait.need, False))
        if wait.head != wait.need:
            found.append((wait.need, wait.head, True))
    return found


def circle(schedule: Schedule) -> list[Wait]:
    """The waits of a deadlock: each is for the next one's device, the last for the first one's; [] if there is none."""
    done = {op for _, op, _ in schedule.steps}
    heads = {
        device: op
        for device, row in enumerate(schedule.rows)
        if (op := next((op for op in row if op not in done), None)) is not None
    }
    if not heads:
        return []
    # Every head waits for an op on another device that stands behind that device's own head, so following the
    # waits from any head must come back to a head already seen: that circle is the deadlock.
    chain: list[int] = [min(heads)]
    needs: dict[int, Op] = {}
    while True:
        device = chain[-1]
        needs[device] = next(need for need in schedule.needs(heads[device]) if need not in done)
        other = schedule.device_of_stage[needs[device].stage]
        if other in chain:
            around = chain[chain.index(other) :]
            break
        chain.append(other)
    nexts = [*around[1:], around[0]]
    return [
        Wait(here, heads[here], needs[here], there, heads[there]) for here, there in zip(around, nexts, strict=True)
    ]
