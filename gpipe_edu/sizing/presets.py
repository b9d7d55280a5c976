"""Machines and models by name, with their sources: `presets.toml`."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from . import costs
from .job import STATES, Job
from .machine import Machine
from .model import Model, transformer

_ABOUT = ("about", "source")


@cache
def presets(kind: str) -> dict[str, dict[str, Any]]:
    """The presets by name, of kind "machines" or "models"."""
    text = files(__package__).joinpath("presets.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)[kind])


def model(name: str) -> Model:
    """A published model. Raises ValueError for a name that is not known."""
    return transformer(**_figures("models", name))


def job(model: Model, batch: int, machine: str, devices: int, **options: Any) -> Job:
    """Training `model` on so many devices of the machine of that name.

    options: of `Job`. They override the machine's bytes per parameter and per activation. Raises ValueError for an
    unknown name.
    """
    figures = _figures("machines", machine)
    if "best_matmul" in figures:
        figures["speed"] = costs.speed(figures["peak"], figures.pop("best_matmul"))
    numbers = {"state": STATES[figures.pop("state")], "activation": figures.pop("activation")}
    return Job(model, batch, Machine(devices, **figures), **(numbers | options)).check()


def _figures(kind: str, name: str) -> dict[str, Any]:
    known = presets(kind)
    if name not in known:
        raise ValueError(f"{name!r} is none of the {kind} known by name: {', '.join(known)}")
    return {key: value for key, value in known[name].items() if key not in _ABOUT}
