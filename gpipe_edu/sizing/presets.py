"""Machines and models by name, with their sources: `presets.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from .machine import Machine
from .model import Model, transformer
from .plan import STATES, Job

_ABOUT = ("about", "source")


@cache
def presets(kind: str) -> dict[str, dict[str, Any]]:
    """The presets by name, of kind "machines" or "models"."""
    text = files(__package__).joinpath("presets.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)[kind])


def model(name: str) -> Model:
    """A published model. Raises ValueError for a name that is not known."""
    return transformer(**_figures("models", name))


def job(model: Model, batch: int, machine: str, accelerators: int, tensor: int = 1, **options: Any) -> Job:
    """Training `model` on so many accelerators of the machine of that name, in groups of `tensor`.

    options: of `Job`. They override the machine's bytes per parameter and per activation. Raises ValueError for an
    unknown name, or accelerators that can't be grouped.
    """
    figures = _figures("machines", machine)
    if accelerators % tensor:
        raise ValueError(f"{accelerators} accelerators make no groups of {tensor}; tensor must divide them")
    speed = figures.pop("peak") * figures.pop("sustained")
    numbers = {"state": STATES[figures.pop("state")], "activation": figures.pop("activation")}
    there = Machine(accelerators // tensor, speed=speed, tensor=tensor, **figures)
    return Job(model, batch, there, **(numbers | options)).check()


def _figures(kind: str, name: str) -> dict[str, Any]:
    known = presets(kind)
    if name not in known:
        raise ValueError(f"{name!r} is none of the {kind} known by name: {', '.join(known)}")
    return {key: value for key, value in known[name].items() if key not in _ABOUT}
