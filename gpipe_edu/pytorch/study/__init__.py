"""For studying the PyTorch engine, no part of it: chores, a stopwatch, profiles, traffic, attention, carried skips."""

from gpipe_edu.pytorch.ledger import Ledger
from gpipe_edu.pytorch.place import wait_for_gpus
from gpipe_edu.pytorch.workers import Workers

from .attention import Attention, Block
from .carried import carried
from .chores import Chore, count, nap
from .profile import LayerProfile, profile
from .stopwatch import Calls, watch
from .traffic import Sent, traffic

__all__ = [
    "Attention",
    "Block",
    "Calls",
    "Chore",
    "LayerProfile",
    "Ledger",
    "Sent",
    "Workers",
    "carried",
    "count",
    "nap",
    "profile",
    "traffic",
    "wait_for_gpus",
    "watch",
]
