"""`calibrate` on this machine, and the planner's constants for such a card against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.sizes import Sizes
from gpipe_edu.sizing import presets
from gpipe_edu.sizing.machine_file import Product
from gpipe_edu.sizing.measurement import measure_machine

CARDS = {"H100": "h100", "H200": "h200"}
"""What a card's name holds, and its preset."""


def run(found: Findings, sizes: Sizes) -> None:
    if found.pretended:
        found.not_asked("calibrate", "it measures in processes of its own, which have no pretended GPU")
        return
    figures, products = measure_machine(1)
    for product in products:
        found.figure(f"products of width {product.width}, bf16", f"{product.speed / 1e12:.1f} TFLOP/s")
    found.figure("memory bandwidth", f"{figures['bandwidth'] / 1e12:.2f} TB/s")
    found.figure("a small block", f"{figures['overhead'] * 1e6:.0f} us")
    for name, preset in CARDS.items():
        if name in figures["about"]:
            for what, text in against(presets.presets("machines")[preset], figures, products).items():
                found.figure(f"{what}, measured / {preset} of the planner", text)


def against(planned: Mapping[str, Any], figures: Mapping[str, Any], products: Sequence[Product]) -> dict[str, str]:
    """What was measured as a share of what the planner assumes."""
    best = planned["peak"] * planned["best_matmul"]
    pairs = {
        "best product": (max(product.speed for product in products), best),
        "bandwidth": (figures["bandwidth"], planned["bandwidth"]),
        "memory": (figures["memory"], planned["memory"]),
    }
    return {name: f"{here:.3g} / {assumed:.3g} = {here / assumed:.2f}" for name, (here, assumed) in pairs.items()}
