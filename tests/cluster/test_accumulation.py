"""Over processes, too, the gradients of 16-bit weights are added up in fp32 and rounded once."""

import pytest
import torch

import gpipe_edu as ge

from . import accumulating
from .on_ranks import run

pytestmark = pytest.mark.slow

M = accumulating.M
SCHEDULES = {
    "1f1b": ge.one_f_one_b(2, M),
    "late recompute": ge.gpipe(2, M, recompute="late"),
    "zero bubble": ge.zero_bubble(2, M),
    "interleaved": ge.interleaved(2, M, 2),
}
every_type = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


@pytest.mark.sweep
@every_type
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_adds_up_in_fp32_and_rounds_once(group, dtype, name):
    assert run(group, 2, accumulating.in_one_pipeline, dtype, SCHEDULES[name]) == [(dtype, 0), (dtype, 0)]


def test_switched_off_the_sum_is_that_of_the_weights_type(group):
    told = run(group, 2, accumulating.in_one_pipeline, torch.bfloat16, SCHEDULES["1f1b"], accumulate_in_fp32=False)
    assert all(dtype == torch.bfloat16 and off > 0.3 for dtype, off in told)


@every_type
def test_replicas_add_up_in_fp32_and_end_with_the_same(group, dtype):
    (one, off, first), (_, other_off, second) = run(group, 2, accumulating.in_replicas, dtype)
    assert (one, off, other_off) == (dtype, 0, 0)
    assert all(map(torch.equal, first, second))


def test_hooks_get_the_sum_in_the_weights_type(group):
    assert run(group, 2, accumulating.in_hooks) == [(torch.bfloat16, 0)] * 2


@every_type
def test_ranks_that_share_a_weight_add_up_in_fp32_and_end_with_the_same(group, dtype):
    (one, off, first), (_, other_off, second) = run(group, 2, accumulating.in_tied_stages, dtype)
    assert (one, off, other_off) == (dtype, 0, 0)
    assert torch.equal(first, second)
