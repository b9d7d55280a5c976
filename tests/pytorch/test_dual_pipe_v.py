"""DualPipeV against PyTorch's own, op by op."""

import pytest
from torch.distributed.pipelining import schedules

import gpipe_edu as ge

KINDS = {
    schedules.FORWARD: "F",
    schedules.FULL_BACKWARD: "B",
    schedules.BACKWARD_INPUT: "I",
    schedules.BACKWARD_WEIGHT: "W",
}


def rows_of_pytorch(K, M):
    """What PyTorch computes for each rank; a pair that it overlaps is taken apart, its forward first."""
    theirs = object.__new__(schedules.ScheduleDualPipeV)  # its order needs neither stages nor processes
    theirs.pp_group_size, theirs._n_microbatches = K, M
    for rank in range(K):
        actions = theirs._calculate_single_rank_operations(rank)
        single = [one for action in actions for one in action.sub_actions or (action,)]
        yield [ge.Op(KINDS[one.computation_type], one.microbatch_index, one.stage_index) for one in single]


@pytest.mark.parametrize("K", range(1, 7))
def test_the_order_is_that_of_pytorch(K):
    for M in range(2 * K, 2 * K + 5):
        assert [list(row) for row in ge.dual_pipe_v(K, M).rows] == list(rows_of_pytorch(K, M)), M
