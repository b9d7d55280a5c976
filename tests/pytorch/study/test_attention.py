"""Selective recompute inside a block: the same result under every schedule, and only the scores are not stored."""

import copy

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.study import Attention, Block
from tests.each import each

N, T, D, HEADS, BLOCKS = 8, 12, 16, 4, 4


def network(again, dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(*(Block(D, HEADS, again) for _ in range(BLOCKS))).to(dtype)


def data(dtype=torch.float64):
    return torch.randn(2, N, T, D, dtype=dtype, generator=torch.Generator().manual_seed(0))


def test_the_means_are_those_of_fused_attention():
    q, k, v = torch.randn(3, 2, HEADS, T, D // HEADS, dtype=torch.float64)
    wanted = nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(Attention(D, HEADS, False).mean(q, k, v), wanted)


@each("schedule", ["gpipe", "1f1b", "zero_bubble"])
@each("checkpoint", ["never", "except_last", "always"])
def test_gradients_are_those_of_plain_pytorch(schedule, checkpoint):
    x, y = data()
    plain = network(again=False)
    nn.MSELoss()(plain(x), y).backward()
    pipe = GPipe(network(again=True), 2, 3, devices=["cpu"], schedule=schedule, checkpoint=checkpoint)
    pipe.step(x, y, nn.MSELoss())
    for ours, theirs in zip(pipe.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


def test_exactly_the_scores_of_the_micro_batches_in_flight_are_not_stored():
    x, y = data(torch.float32)
    peaks = {}
    for again in (False, True):
        net = network(again, torch.float32)
        pipe = GPipe(net, 2, 4, devices=["cpu"], schedule="1f1b", checkpoint="never", measure_memory=True)
        pipe.step(x, y, nn.MSELoss())
        peaks[again] = pipe.peak_memory
    scores = N // 4 * HEADS * T * T * 4  # bytes of a micro-batch in one block
    assert [kept - less for kept, less in zip(peaks[False], peaks[True], strict=True)] == [
        held * (BLOCKS // 2) * scores for held in (2, 1)
    ]


def test_a_copy_may_be_told_otherwise_and_heads_must_divide_d():
    block = Block(D, HEADS, again=True)
    other = copy.deepcopy(block)
    other.attend.again = False
    x = data()[0].float()
    torch.testing.assert_close(block(x), other(x), rtol=0, atol=0)
    with pytest.raises(ValueError, match="heads must divide d"):
        Block(10, 4, again=True)
