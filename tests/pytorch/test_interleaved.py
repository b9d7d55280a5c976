"""The interleaved schedules against PyTorch's own, op by op."""

from types import SimpleNamespace

import pytest
from torch import nn
from torch.distributed.pipelining.schedules import get_schedule_class

import gpipe_edu as ge


def rows_of_pytorch(name, K, M, V):
    """What PyTorch computes for each rank, in its letters."""
    about = {"group_size": K, "group_rank": 0, "num_stages": K * V, "is_first": True, "is_last": False}
    stages = [SimpleNamespace(submod=nn.Identity(), has_backward=True, stage_index=v * K, **about) for v in range(V)]
    order = get_schedule_class(name)(stages, M).pipeline_order
    return [[str(action) for action in order[rank] if action] for rank in range(K)]


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("Interleaved1F1B", ge.interleaved), ("InterleavedZeroBubble", ge.interleaved_zero_bubble)],
)
def test_the_order_is_that_of_pytorch(name, recipe):
    for K in range(2, 6):
        for M in range(1, 4 * K):
            for V in (1, 2, 3):
                if M % max(1, M // K) == 0:  # PyTorch takes no others
                    ours = [[f"{op.stage}{op.kind}{op.micro_batch}" for op in row] for row in recipe(K, M, V).rows]
                    assert ours == rows_of_pytorch(name, K, M, V), (K, M, V)
