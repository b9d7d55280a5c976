"""Machines and models by name, with their sources: `presets.toml`; and machines from files of one's own."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from . import costs, hugging_face, machine_file
from .job import STATES, Job, Machine
from .model import Model, transformer

DEVICES: Final = 4
"""How many, where neither the caller nor the machine's file says."""


@cache
def presets(kind: str) -> dict[str, dict[str, Any]]:
    """The presets by name, of kind "machines" or "models"."""
    text = files(__package__).joinpath("presets.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)[kind])


def known_name(kind: str, name: str) -> str | None:
    """What presets of that kind call it: "Llama-3 8B" is llama3-8b; None if they know no such name."""
    return {_plain(known): known for known in presets(kind)}.get(_plain(name))


def model(name: str, **changes: int) -> Model:
    """A published model. changes: blocks, context or vocabulary, where they should differ from those published.

    Raises ValueError for a name that is not known.
    """
    figures = _figures("models", name) | changes
    if "config" in figures:
        return hugging_face.of_config(figures.pop("config"), **figures).model
    return transformer(**figures)


def job(model: Model, batch: int, machine: str, devices: int | None = None, **options: Any) -> Job:
    """Training `model` on so many devices of the machine of that name, or of the file of that name, if it ends with
    ".toml".

    options: of `Job`. They override the machine's bytes per parameter and per activation. Raises ValueError for an
    unknown name, and ValueError, TypeError or OSError for a file that is not a machine's (`machine_file`).
    """
    mine = machine.endswith(machine_file.SUFFIX)
    figures = _without_words(machine_file.read(Path(machine))) if mine else _figures("machines", machine)
    products = figures.pop("products", None)
    if products:
        figures["peak"] = max(product.speed for product in products)
        figures["speed"] = costs.speed(machine_file.nearest(products, model.width).speed, 1)
    elif "best_matmul" in figures:
        figures["speed"] = costs.speed(figures["peak"], figures.pop("best_matmul"))
    numbers = {"state": STATES[figures.pop("state")], "activation": figures.pop("activation")}
    known = figures.pop("devices", DEVICES)
    return Job(model, batch, Machine(known if devices is None else devices, **figures), **(numbers | options)).check()


def _figures(kind: str, name: str) -> dict[str, Any]:
    found, known = known_name(kind, name), presets(kind)
    if found is None:
        raise ValueError(f"{name!r} is none of the {kind} known by name: {', '.join(known)}")
    return _without_words(known[found])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.lower())


def _without_words(figures: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in figures.items() if key not in machine_file.WORDS}
