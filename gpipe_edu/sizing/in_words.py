"""Sizes, times, bars and the parts of a step, as tables, pictures and sentences have them."""

from __future__ import annotations

from typing import Final

from gpipe_edu.view.measures import time_unit

PARTS: Final = {
    "products": "matrix products",
    "memory": "memory traffic and fixed costs",
    "recompute": "recomputed operations",
    "groups": "messages within groups",
    "experts": "messages with experts that computation does not hide",
    "shards": "shard exchanges that computation does not hide",
    "replicas": "replica exchanges that computation does not hide",
    "update": "updates of weights",
    "bubble": "bubbles",
}


def size(count: float) -> str:
    """Bytes as people read them, in powers of ten: "1.25 GB"."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.9995 * scale:  # so that what rounds to 1 is 1
            return f"{count / scale:.{max(3, len(str(int(count / scale))))}g} {unit}"
    return f"{count:.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    return time_unit("s", seconds).show(seconds)


def bar(share: float, width: int) -> str:
    """A bar of so many characters, filled to that share in eighths of one."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(width)
