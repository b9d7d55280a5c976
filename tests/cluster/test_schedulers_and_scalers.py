"""What is made is noted while it is in use. `test_resume.py` and `test_refused.py` tell who hears of it."""

import torch
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from gpipe_edu.cluster.schedulers_and_scalers import PLATEAUS, SCALERS

from .jobs import network


class Own(ReduceLROnPlateau):
    """One of somebody else's."""


def test_plateaus_of_all_kinds_are_noted_while_they_are_in_use():
    optimizer = torch.optim.SGD(network().parameters())
    before = set(PLATEAUS)
    made = {ReduceLROnPlateau(optimizer), Own(optimizer, mode="max")}
    StepLR(optimizer, 1)
    assert set(PLATEAUS) - before == made
    before.clear()
    del made
    assert not any(one.optimizer is optimizer for one in PLATEAUS)


def test_so_are_scalers_also_that_of_several_ranks():
    plain, sharded = torch.amp.GradScaler("cpu"), ShardedGradScaler("cpu", process_group=None)
    assert {plain, sharded} <= set(SCALERS)
