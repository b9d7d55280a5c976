"""A training that is killed goes on from what it had saved, with the losses that it would have had without the end."""

from functools import partial

import pytest
import torch

import gpipe_edu as ge
from gpipe_edu.cluster.saving import device_of_slot, saved_steps
from gpipe_edu.distributed import ProcessError
from tests.processes import PATIENCE

from . import jobs
from .on_ranks import run

pytestmark = pytest.mark.slow


def train(group, schedule, folder, steps, **how):
    return _trained(group, schedule, folder, steps, **how)[0][0]


def rates(group, schedule, folder, steps, **how):
    """Losses, and the learning rates of the last rank."""
    found = _trained(group, schedule, folder, steps, **how)
    return found[0][0], found[-1][1]


def _trained(group, schedule, folder, steps, **how):
    return run(group, schedule.devices * how.get("copies", 1), jobs.training, schedule, str(folder), steps, **how)


@pytest.fixture(scope="module")
def whole(group, tmp_path_factory):
    return train(group, ge.gpipe(2, 3), tmp_path_factory.mktemp("whole"), 4)


@pytest.mark.sweep
@pytest.mark.parametrize("then", [ge.one_f_one_b(2, 3), ge.gpipe(1, 2), ge.interleaved(2, 3, 2)])
def test_it_goes_on_with_the_same_losses_also_on_other_stages(group, tmp_path, whole, then):
    first = train(group, ge.gpipe(2, 3), tmp_path, 2)
    later = train(group, then, tmp_path, 4)
    assert sorted(first) + sorted(later) == [0, 1, 2, 3]
    assert first | later == pytest.approx(whole, rel=1e-12)
    assert [path.name for path in saved_steps(tmp_path)] == ["step-00000003", "step-00000004"]


def test_a_kill_while_saving_leaves_the_last_good_one(group, tmp_path, whole):
    with pytest.raises(ProcessError):
        train(group, ge.gpipe(2, 3), tmp_path, 4, end_at=2)
    assert [path.name for path in saved_steps(tmp_path)] == ["step-00000001", "step-00000002"]
    assert (tmp_path / "step-00000003.partial").is_dir()
    later = train(group, ge.gpipe(2, 3), tmp_path, 4)
    assert later == pytest.approx({step: whole[step] for step in (2, 3)}, rel=1e-12)
    assert not list(tmp_path.glob("*.partial"))


def test_zero_1_on_two_replicas_trains_and_resumes_as_one_pipeline_does(group, tmp_path, whole):
    first = train(group, ge.gpipe(2, 3), tmp_path, 2, copies=2, zero=True)
    later = train(group, ge.gpipe(2, 3), tmp_path, 4, copies=2, zero=True)
    assert first | later == pytest.approx(whole, rel=1e-9)


KINDS = {
    "by hand": {"lowered": 1},
    "groups, by hand": {"groups": True, "lowered": 0},
    "exponential": {"scheduler": "exponential"},
    "cosine, groups": {"scheduler": "cosine", "groups": True},
    "warm-up": {"scheduler": "warm-up"},
    "zero 1, exponential": {"scheduler": "exponential", "zero": True, "copies": 2},
    "zero 1, by hand": {"lowered": 1, "zero": True, "copies": 2},
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", KINDS)
def test_learning_rates_and_their_scheduler_go_on_to_the_last_digit(group, tmp_path, name):
    how, schedule = KINDS[name], ge.gpipe(2, 3)
    whole, last = rates(group, schedule, tmp_path / "whole", 5, **how)
    first, _ = rates(group, schedule, tmp_path / "parts", 2, **how)
    later, end = rates(group, schedule, tmp_path / "parts", 5, **how)
    assert first | later == whole
    assert end == last
    assert max(last) < 0.01, "the rate is lower by now"


def test_other_stages_take_up_the_settings_of_their_weights(group, tmp_path):
    how = {"groups": True, "scheduler": "exponential"}
    whole, last = rates(group, ge.gpipe(2, 3), tmp_path / "whole", 4, **how)
    first, _ = rates(group, ge.gpipe(2, 3), tmp_path / "parts", 2, **how)
    later, end = rates(group, ge.one_f_one_b(3, 3), tmp_path / "parts", 4, **how)
    assert first | later == pytest.approx(whole, rel=1e-12)
    assert end == last


def test_a_buffer_of_two_ranks_has_one_name_and_is_resumed_by_other_stages(group, tmp_path):
    def told(K, folder, load):
        return run(group, K, jobs.with_one_mask, ge.gpipe(K, 2), str(tmp_path / folder), load)

    numbers = [0.0, 1, 2, 3, 4]
    assert told(2, "two", False) == [["1.mask"], ["1.mask"]]
    assert told(1, "two", True) == [(1, [numbers])]
    assert told(1, "one", False) == [["1.mask"]]
    assert told(2, "one", True) == [(1, [numbers]), (1, [numbers])]


def test_what_is_loaded_need_not_have_been_built_from_one_seed(group, tmp_path, whole):
    first = train(group, ge.gpipe(2, 3), tmp_path, 2)
    later = train(group, ge.gpipe(2, 3), tmp_path, 4, seed=5)
    assert first | later == whole


def test_what_would_be_lost_is_refused_on_every_rank(group, tmp_path):
    for said in run(group, 2, jobs.saved_wrongly, str(tmp_path)):
        assert "and 0.bias in groups of different settings" in said["other groups"]
        assert "save(..., scheduler=scheduler)" in said["not given to save"]
        assert "was saved without a scheduler" in said["not there"]
        assert "load(..., scheduler=scheduler)" in said["not given to load"]
        assert "an optimizer that did not have 8.weight" in said["more weights"]
        assert said["another rate for a copy"].startswith("0.weight has the settings {'lr': 1.1, ")
        assert "'lr': 0.1, " in said["another rate for a copy"].partition(" on rank 1 and ")[2]
        assert "rank 0 and rank 1 are in different states: last_epoch is 0 on rank 0 and 1 on rank 1;" in said["apart"]


OTHERS = {
    "narrower": ([(5, 6), None, (6, 8), (8, 3)], "is of another network: 2.weight is not there, or has another shape"),
    "shorter": ([(5, 6), None, (6, 7), None, (7, 4)], "is of another network: 6.weight is not here, or has another"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_network_is_refused(group, tmp_path, name):
    train(group, ge.gpipe(2, 3), tmp_path, 1)
    widths, words = OTHERS[name]

    def other(folder):
        from torch import nn, optim, randn

        from gpipe_edu.cluster import Pipeline, saving

        net = nn.Sequential(*(nn.Tanh() if pair is None else nn.Linear(*pair) for pair in widths)).double()
        pipeline = Pipeline(net, ge.gpipe(1, 2), jobs.LOSS, randn(4, 5).double())
        try:
            saving.load(folder, pipeline, optim.Adam(pipeline.parameters()))
        except ValueError as error:
            return str(error)

    [said] = group.run([partial(other, str(tmp_path))], PATIENCE).values
    assert words in said


@pytest.mark.parametrize("options", [{}, {"capturable": True}])
def test_counts_of_steps_lie_where_pytorch_puts_them_when_it_loads_an_optimizer(options):
    weight, elsewhere = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2, device="meta"))
    slots = {slot: torch.zeros(()) for slot in ("step", "exp_avg", "exp_avg_sq")}
    saved = torch.optim.Adam([weight], **options).state_dict() | {"state": {0: slots}}
    theirs = torch.optim.Adam([elsewhere], **options)
    theirs.load_state_dict(saved)
    for slot, value in theirs.state[elsewhere].items():
        assert device_of_slot(slot, theirs.param_groups[0], elsewhere.device) == value.device
