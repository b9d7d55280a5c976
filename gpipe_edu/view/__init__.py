"""Pictures of schedules and timelines. Nothing is loaded here, so schedules do not wait for a plotting library."""

from typing import Any

__all__ = [
    "memory_curve",
    "panels",
    "plot_bars",
    "plot_images",
    "plot_lines",
    "plot_pieces",
    "plot_points",
    "plot_traffic",
]


def __getattr__(name: str) -> Any:
    """These load matplotlib, so they load when they are first used."""
    if name == "memory_curve":
        from .curves import memory_curve

        return memory_curve
    if name in ("panels", "plot_bars", "plot_images", "plot_lines", "plot_pieces", "plot_points", "plot_traffic"):
        from . import plots

        return getattr(plots, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
