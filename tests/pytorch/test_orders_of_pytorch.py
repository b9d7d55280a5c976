"""Every schedule that PyTorch ships against ours, op by op."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from torch import nn
from torch.distributed.pipelining import schedules

import gpipe_edu as ge

SHIPPED = {
    *("ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS"),
    *("ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"),
}


def test_these_are_all_that_pytorch_ships():
    assert {name for name in schedules.__all__ if name.startswith("Schedule")} == SHIPPED


def rows_of_pytorch(name, K, M, first_stages):
    """What PyTorch computes for each rank, in its letters. first_stages: those of rank 0."""
    about = {"group_size": K, "group_rank": 0, "num_stages": K * len(first_stages), "is_first": True, "is_last": False}
    stages = [SimpleNamespace(submod=nn.Identity(), has_backward=True, stage_index=k, **about) for k in first_stages]
    order = getattr(schedules, name)(stages, M).pipeline_order
    return [[str(action) for action in order[rank] if action] for rank in range(K)]


def turned(schedule):
    """`schedule` with the micro-batches of its backwards the other way round."""
    last = schedule.micro_batches - 1
    rows = [[ge.Op("B", last - op[1], op[2]) if op.kind == "B" else op for op in row] for row in schedule.rows]
    return ge.Schedule(rows)


def cells(schedule):
    """Our rows in PyTorch's letters."""
    return [line.split(",") for line in schedule.to_csv().splitlines()]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("ScheduleInterleaved1F1B", ge.interleaved),
        ("ScheduleInterleavedZeroBubble", ge.interleaved_zero_bubble),
        ("ScheduleLoopedBFS", lambda K, M, V: turned(ge.breadth_first(K, M, V))),
    ],
)
def test_looped_orders_are_those_of_pytorch(name, ours):
    for K in range(2, 6):
        for M in range(1, 4 * K):
            for V in (1, 2, 3):
                if M % max(1, M // K) == 0 or name == "ScheduleLoopedBFS":  # PyTorch takes no others
                    assert cells(ours(K, M, V)) == rows_of_pytorch(name, K, M, range(0, V * K, K)), (K, M, V)


@pytest.mark.parametrize(
    ("name", "recipe"), [("ScheduleZBVZeroBubble", ge.zero_bubble_v), ("ScheduleDualPipeV", ge.dual_pipe_v)]
)
def test_orders_on_a_v_are_those_of_pytorch_pairs_included(name, recipe):
    for K in range(1, 7):
        for M in range(2 * K if recipe is ge.dual_pipe_v else 1, 4 * K + 3):
            assert cells(recipe(K, M)) == rows_of_pytorch(name, K, M, (0, 2 * K - 1)), (K, M)


def what_runs(kind, K, M, k):
    """The ops that PyTorch's own step of rank k runs, of a schedule with one stage a rank."""
    ran = []
    about = {"group_size": K, "num_stages": K, "stage_index": k, "is_first": k == 0, "is_last": k == K - 1}
    stage = MagicMock(submod=nn.Identity(), **about)
    stage.forward_one_chunk.side_effect = lambda m, *_, **__: ran.append(f"{k}F{m}") or torch.zeros(())
    stage.backward_one_chunk.side_effect = lambda m, **_: ran.append(f"{k}B{m}")
    for messages in (stage.get_fwd_recv_ops, stage.get_fwd_send_ops, stage.get_bwd_recv_ops, stage.get_bwd_send_ops):
        messages.return_value = []
    schedule = kind(stage, M, loss_fn=lambda output, _: output)
    schedule._initialize_stage = lambda *_: None
    schedule._step_microbatches([()] * M, [{}] * M, [0] * M, [])
    return ran


@pytest.mark.parametrize(
    ("kind", "ours"),
    [(schedules.ScheduleGPipe, lambda K, M: turned(ge.gpipe(K, M))), (schedules.Schedule1F1B, ge.one_f_one_b)],
)
def test_what_pytorch_runs_with_one_stage_a_rank_is_ours(kind, ours):
    """Its run, for what it prints of 1F1B's last rank is off by one (tests/cluster/test_pipeline_csv.py)."""
    for K in range(1, 6):
        for M in (K, K + 1, 3 * K + 1):
            assert cells(ours(K, M)) == [what_runs(kind, K, M, k) for k in range(K)], (K, M)


@pytest.mark.parametrize("schedule", [ge.gpipe(3, 5), ge.breadth_first(3, 5, 2)])
def test_which_micro_batch_goes_back_first_after_all_forwards_changes_no_time(schedule):
    stages = schedule.stages
    costs = ge.Costs(F=[3, 1, 2, 1, 2, 3][:stages], B=[2, 5, 1, 3, 2, 2][:stages], send=0.5, link=0.75)
    one, other = (
        [[(span.start, span.end) for span in ge.simulate(order, costs).row(device)] for device in range(3)]
        for order in (schedule, turned(schedule))
    )
    assert one == other
