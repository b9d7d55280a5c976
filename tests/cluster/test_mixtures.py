"""Mixtures of experts, and unequal numbers of tokens, in a pipeline of processes: as on one device."""

import pytest
import torch

import gpipe_edu as ge

from . import mixture_jobs
from .mixture_jobs import M
from .on_ranks import run

pytestmark = pytest.mark.slow


def test_balancing_losses_are_those_of_one_device(group):
    """A stage of mixtures on each rank, or two; backwards in one piece, in two halves, and behind a recompute."""
    schedules = [
        ge.one_f_one_b(2, M),
        ge.zero_bubble(2, M),
        ge.interleaved(2, M, 2),
        ge.interleaved_zero_bubble(2, M, 2),
        ge.gpipe(2, M, recompute="late"),
    ]
    for told in run(group, 2, mixture_jobs.balanced, schedules):
        for schedule, (loss, along, injected) in zip(schedules, told, strict=True):
            assert max(loss, along, injected) < 1e-10, schedule.name


def test_a_router_in_32_bits_of_a_net_in_16(group):
    for off, kinds in run(group, 2, mixture_jobs.router_in_32_bits):
        assert off < 0.01, "two digits are left of a sum in fp32"
        assert {kind for name, kind in kinds.items() if "router" in name} == {torch.float32}
        assert {kind for name, kind in kinds.items() if "router" not in name} == {torch.bfloat16}


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("loss", ["mean", "sum"])
def test_packed_documents_are_as_each_alone(group, loss, copies):
    """By cross entropy, which ignores what has no target, and by a sum that is divided by the number of targets; on two
    stages and on two replicas."""
    told = run(group, 2, mixture_jobs.packed_documents, loss, copies)
    for off, gradients, counts in told:
        assert off < 1e-10
        assert gradients < 1e-10
        assert counts[0] != counts[1]
    assert copies == 1 or sum(told[0][2]) != sum(told[1][2])
