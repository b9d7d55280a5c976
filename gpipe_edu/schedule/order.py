"""One order in which all ops of a schedule can run one after another, found in time linear in their number."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .needs import Needs
from .op import Op

Turn = tuple[int, Op, list[Op]]
"""A device, the op it runs, and the ops that op waited for."""


def run_order(rows: Sequence[Sequence[Op]], needs: Needs) -> list[Turn]:
    """All ops, each after what it needs and after its device's earlier ops; those that can never run are left out.

    Every device runs until its next op has to wait, and is woken by the op that this one waits for.
    """
    turns: list[Turn] = []
    done: set[Op] = set()
    sleepers: dict[Op, list[int]] = {}  # op -> devices that wait until it has ended
    position = [0] * len(rows)
    awake = deque(range(len(rows)))
    while awake:
        device = awake.popleft()
        row = rows[device]
        for index in range(position[device], len(row)):
            op = row[index]
            needed = needs(op)
            for need in needed:
                if need not in done:
                    sleepers.setdefault(need, []).append(device)
                    break
            else:
                done.add(op)
                turns.append((device, op, needed))
                awake.extend(sleepers.pop(op, ()))
                continue
            position[device] = index
            break
    return turns
