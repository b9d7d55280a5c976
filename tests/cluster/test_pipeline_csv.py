"""What we write as a pipeline CSV is what PyTorch reads, and runs with one device's gradients."""

import re
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.pipelining.schedules import Schedule1F1B, _Action, _PipelineScheduleRuntime

import gpipe_edu as ge
from gpipe_edu.schedule import recipes
from gpipe_edu.schedule.recompute import with_kinds
from tests.each import each

from . import csv_jobs
from .on_ranks import run

RECIPES = {name: recipe for name, recipe in recipes.RECIPES.items() if name != "gpipe-early"}


def engine(schedule):
    """PyTorch's, for these ranks, stages and micro-batches, without any process."""
    about = {"group_size": schedule.devices, "group_rank": 0, "num_stages": schedule.stages, "stage_index": 0}
    stage = SimpleNamespace(submod=torch.nn.Identity(), has_backward=True, is_first=True, is_last=False, **about)
    return _PipelineScheduleRuntime([stage], schedule.micro_batches)


def test_pytorch_reads_the_ops_and_their_ranks(tmp_path):
    for name, recipe in RECIPES.items():
        for K, M in ((1, 1), (2, 3), (3, 2), (4, 8), (4, 5)):
            schedule = recipe(K, M)
            schedule.to_csv(tmp_path / "plan.csv")
            loaded = engine(schedule)
            loaded._load_csv(tmp_path / "plan.csv", format="compute_only")
            told = with_kinds(schedule, {"C": "B"})
            expected = [[f"{op.stage}{op.kind}{op.micro_batch}" for op in row] for row in told.rows]
            found = [
                [str(one) for action in loaded.pipeline_order[k] for one in action.sub_actions or (action,)]
                for k in range(K)
            ]
            assert found == expected, name
            assert loaded.stage_index_to_group_rank == schedule.device_of_stage, name


def test_what_pytorch_writes_with_its_messages_is_read_as_its_compute(tmp_path):
    for schedule in (ge.interleaved(2, 4, 2), ge.zero_bubble(3, 4), ge.zero_bubble_v(2, 3)):
        schedule.to_csv(tmp_path / "plan.csv")
        loaded = engine(schedule)
        loaded._load_csv(tmp_path / "plan.csv", format="compute_only")
        loaded._dump_csv(tmp_path / "messages.csv", format="compute_comms")
        text = (tmp_path / "messages.csv").read_text()
        assert "SEND_F" in text
        assert "UNSHARD" in text
        assert ge.Schedule.parse(text) == schedule


def test_pairs_that_pytorch_names_are_read():
    pair = _Action.from_str("(0F3;3B1)OVERLAP_F_B")
    assert str(ge.Schedule.parse(f"0F3,{pair}")) == "F3@0 F3@0 B1@3"


@each("K, M", [(K, M) for K in range(1, 9) for M in range(K, K + 4)])
def test_the_last_rank_of_pytorchs_own_1f1b_is_printed_off_by_one(K, M):
    """The print that lesson 3 shows. When a release mends it, this fails: then lesson and sentence say up to which."""
    order = Schedule1F1B._get_pipeline_order(SimpleNamespace(_num_stages=K, _n_microbatches=M))
    lines = [",".join("" if action is None else str(action) for action in order[rank]) for rank in range(K)]
    with pytest.raises(ge.ScheduleError, match=f"line {K} has {K - 1}F1 to {K - 1}F{M} .* off by one"):
        ge.Schedule.parse("\n".join(lines))
    mended = re.sub(r"F(\d+)", lambda found: f"F{int(found[1]) - 1}", lines[-1])
    assert ge.Schedule.parse("\n".join([*lines[:-1], mended])) == ge.one_f_one_b(K, M)


SCHEDULES = [
    *(recipe(K, M) for recipe in RECIPES.values() for K, M in ((2, 4), (4, 3))),
    ge.one_f_one_b(2, 1),
    ge.one_f_one_b(4, 2),
]


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 4])
def test_gradients_are_one_devices(group, tmp_path, K):
    """Also of 1F1B with fewer micro-batches than ranks, which PyTorch's own class refuses."""
    for number, schedule in enumerate(one for one in SCHEDULES if one.devices == K):
        file = tmp_path / f"{number}.csv"
        schedule.to_csv(file)
        held = [sorted({op.stage for op in row}) for row in schedule.rows]
        found = run(group, K, csv_jobs.apart, str(file), schedule.stages, held, schedule.micro_batches)
        assert max(found) < 1e-10, schedule.name


def test_pytorchs_own_1f1b_refuses_fewer_micro_batches_than_ranks():
    about = {"group_size": 4, "group_rank": 0, "num_stages": 4, "stage_index": 0, "has_backward": True}
    stage = SimpleNamespace(submod=torch.nn.Identity(), is_first=True, is_last=False, **about)
    with pytest.raises(ValueError, match="must be greater than"):
        Schedule1F1B(stage, 2)
