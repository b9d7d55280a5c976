"""How `choose` is called."""

from __future__ import annotations

from typing import Any


def perform(choose: Any, model: dict[str, int], devices: int, node: int, memory: int, batch: int) -> Any:
    """The plan that is chosen, and the model as it is afterwards."""
    model = dict(model)
    return choose(model, devices, node, memory, batch), model
