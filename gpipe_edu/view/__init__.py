"""Pictures of schedules and timelines. Nothing is loaded here, so schedules do not wait for a plotting library."""

from typing import Any

__all__ = ["memory_curve"]


def __getattr__(name: str) -> Any:
    """`memory_curve` loads matplotlib, so it loads when it is first used."""
    if name == "memory_curve":
        from .curves import memory_curve

        return memory_curve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
