"""A machine in a TOML file: `python -m gpipe_edu calibrate` writes one that it has measured, `plan --machine` reads it.

A file has the fields of a preset, in the same units: bytes, bytes and operations per second, seconds. Instead of one
speed it may have several products, each with its width; a model is as fast as the product whose width is nearest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpipe_edu.base.bounded import in_one_sentence, parse_toml, read_text
from gpipe_edu.base.validate import number, whole
from gpipe_edu.base.words import shown

from .job import STATES, Machine

SUFFIX: Final = ".toml"
"""How the name of such a file ends, and that of a preset does not."""

_SPEEDS: Final = {
    "products": "[[products]] with width and speed",
    "best_matmul": "peak and best_matmul",
    "speed": "speed",
}
"""A file has one of these."""

WORDS: Final = ("about", "source", "url")
"""Fields that say what a machine is and where its figures can be read."""

_FIELDS: Final = (*WORDS, *Machine._fields, "best_matmul", "products", "state", "activation")


class Product(NamedTuple):
    """A matrix product: n x width numbers with width x width."""

    width: int
    speed: float  # operations per second


def nearest(products: Sequence[Product], width: int) -> Product:
    """The product whose width differs from this one by the smallest factor."""
    return min(products, key=lambda product: max(product.width, width) / min(product.width, width))


def write(path: Path, figures: Mapping[str, Any], products: Sequence[Product]) -> None:
    """Write a machine with these fields and products."""
    lines = [
        "# For `python -m gpipe_edu plan --machine`. Bytes, bytes and operations per second, seconds, one way.",
        *(f"{name} = {_written(value)}" for name, value in figures.items() if value is not None),
    ]
    for product in products:
        lines += ["", "[[products]]", *(f"{name} = {_written(value)}" for name, value in product._asdict().items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _written(value: str | float) -> str:
    """As TOML writes it; a measurement has no more than four meaningful digits."""
    return f"{value:.3e}" if isinstance(value, float) else json.dumps(value)


def read(path: Path) -> dict[str, Any]:
    """The fields of a file, products as `Product`. Raises ValueError or TypeError for one that is not a machine's,
    naming the file, what is wrong in it and what it may have; OSError if there is none."""
    told = shown(str(path), 100)
    with in_one_sentence(told):
        try:
            figures = parse_toml(read_text(path), told)
        except ValueError as error:
            raise ValueError(f"{told} is no TOML file: {shown(str(error), 200)}") from error
        try:
            return _check(figures)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{told}: {error}") from error


def _check(figures: dict[str, Any]) -> dict[str, Any]:
    for name in figures:
        if name not in _FIELDS:
            raise ValueError(f"{name!r} is no field of a machine; it may have {', '.join(_FIELDS)}")
    for name in ("memory", "state", "activation"):
        if name not in figures:
            raise ValueError(f"{name!r} is missing; it must have memory, state, activation, and a speed")
    if sum(name in figures for name in _SPEEDS) != 1:
        raise ValueError(f"it must have exactly one of {'; '.join(_SPEEDS.values())}")
    if figures["state"] not in STATES:
        raise ValueError(f"state is {figures['state']!r}; it must be one of {', '.join(STATES)}")
    whole("activation", figures["activation"], 1)
    if "best_matmul" in figures and not 0 < number("best_matmul", figures["best_matmul"]) <= 1:
        raise ValueError(f"best_matmul is {figures['best_matmul']}; it must be above 0 and at most 1")
    if "best_matmul" in figures and "peak" not in figures:
        raise ValueError("'peak' is missing; best_matmul is a share of it")
    if "products" in figures:
        figures["products"] = _products(figures["products"])
    given = {name: value for name, value in figures.items() if name in Machine._fields}
    Machine(**{"devices": 1, "speed": 1} | given).check()
    return figures


def _products(found: Any) -> list[Product]:
    try:
        products = [Product(**each) for each in found]
    except TypeError as error:
        raise ValueError("each of [[products]] must have a width and a speed, and nothing else") from error
    if not products:
        raise ValueError("products is empty; there must be one")
    for product in products:
        whole("width", product.width, 1)
        if not number("speed", product.speed):
            raise ValueError(f"speed is {product.speed}; it must be more than 0")
    return products
