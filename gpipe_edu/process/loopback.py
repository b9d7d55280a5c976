"""The network interface through which the processes of one machine talk, whatever its name resolves to."""

from __future__ import annotations

import os
import sys
from typing import Final

_NAMES: Final = {"linux": "lo", "darwin": "lo0"}

LOOPBACK: Final[dict[str, str]] = {"GLOO_SOCKET_IFNAME": _NAMES[sys.platform]} if sys.platform in _NAMES else {}
"""What tells gloo so, in the environment; on Windows it finds the interface by itself."""


def talk_by_loopback() -> None:
    """From now on this process does, unless somebody has chosen an interface."""
    for name, value in LOOPBACK.items():
        os.environ.setdefault(name, value)
