"""How `order` is called."""

from __future__ import annotations

from typing import Any, Final

from gpipe_edu.judge.guest.forms import gather, gather_for_good

HIDDEN: Final = {"gpipe_edu.timeline.micro_batch_order.order_micro_batches": "order"}


def perform(order: Any, costs: list[float], memory: float) -> Any:
    """The order that the function gives, and its `costs` as they are afterwards."""
    costs = list(costs)
    return gather_for_good(order(costs, memory)), gather(costs)
