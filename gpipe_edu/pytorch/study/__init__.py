"""For studying the PyTorch engine, not part of it: layers that take a known time, profiles, traffic, attention, and a
worker of one's own."""

from gpipe_edu.pytorch.ledger import Ledger
from gpipe_edu.pytorch.place import wait_for_gpus
from gpipe_edu.pytorch.workers import Workers

from .attention import Attention, Block
from .profile import LayerProfile, profile
from .timing import Chore, StageCalls, count, nap, watch
from .traffic import Crossing, carry_skips, traffic
from .worker import stage_worker

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
    "stage_worker",
    "traffic",
    "wait_for_gpus",
    "watch",
]
