"""To study the PyTorch engine, not part of it: chores, a stopwatch, profiles, traffic, attention, carried skips."""

from gpipe_edu.pytorch.ledger import Ledger
from gpipe_edu.pytorch.place import wait_for_gpus
from gpipe_edu.pytorch.workers import Workers

from .attention import Attention, Block
from .carried_skips import carry_skips
from .chores import Chore, count, nap
from .profile import LayerProfile, profile
from .stopwatch import StageCalls, watch
from .traffic import Crossing, traffic

__all__ = [
    "Attention",
    "Block",
    "Chore",
    "Crossing",
    "LayerProfile",
    "Ledger",
    "StageCalls",
    "Workers",
    "carry_skips",
    "count",
    "nap",
    "profile",
    "traffic",
    "wait_for_gpus",
    "watch",
]
