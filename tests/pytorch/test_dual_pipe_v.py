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


def actions_of_pytorch(K, M):
    """What PyTorch computes, rank after rank."""
    theirs = object.__new__(schedules.ScheduleDualPipeV)  # its order needs neither stages nor processes
    theirs.pp_group_size, theirs._n_microbatches = K, M
    for rank in range(K):
        yield theirs._calculate_single_rank_operations(rank)


def ours(action):
    return ge.Op(KINDS[action.computation_type], action.microbatch_index, action.stage_index)


@pytest.mark.parametrize("K", range(1, 7))
def test_order_and_pairs_are_those_of_pytorch(K):
    for M in range(2 * K, 2 * K + 5):
        theirs, schedule = list(actions_of_pytorch(K, M)), ge.dual_pipe_v(K, M)
        assert [list(row) for row in schedule.rows] == [
            [ours(one) for action in row for one in action.sub_actions or (action,)] for row in theirs
        ]
        together = {tuple(map(ours, action.sub_actions)) for row in theirs for action in row if action.sub_actions}
        assert schedule.pairs == together
        lines = schedule.to_csv().splitlines()
        assert [[schedules._Action.from_str(cell) for cell in line.split(",")] for line in lines] == theirs
