"""Layers on PyTorch's device "meta", whose tensors hold no numbers, and afterwards as they were.

Not `torch.func.functional_call`: of a weight or a layer that has two names it puts back one, and of what a forward sets
nothing: a table of angles that a layer keeps would stay without numbers, and a count would be one too high.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from itertools import chain
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from gpipe_edu.pytorch.weights import stand_in

_META: Final = torch.device("meta")


@contextmanager
def without_numbers(layers: nn.Module) -> Iterator[None]:
    """`layers` hold weights and buffers on the device "meta"; then all is put back, whatever a forward has set.

    That is attributes, what lists, dictionaries and sets among them hold, and the state of random numbers. A tensor
    that is neither a weight nor a buffer stays where it is.
    """
    ours = {id(tensor): stand_in(tensor, _META) for tensor in chain(layers.parameters(), layers.buffers())}
    attributes = [vars(module) for module in layers.modules()]
    parts = [part for known in attributes for part in known.values() if type(part) in (dict, OrderedDict, list, set)]
    held = [(part, copy(part)) for part in [*attributes, *parts]]
    try:
        with _random_numbers_kept():
            for part, _ in held:
                for key, value in _entries(part):
                    if id(value) in ours:
                        part[key] = ours[id(value)]
            yield
    finally:
        for part, before in held:
            part.clear()
            part.extend(before) if isinstance(part, list) else part.update(before)


def _entries(part: Any) -> list[tuple[Any, Any]]:
    """Of a list or a dictionary; a set is asked for no tensors."""
    return list(part.items()) if isinstance(part, dict) else list(enumerate(part)) if isinstance(part, list) else []


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
