"""Ranks that build only their own layers train the net that one device would have built, and never hold all of it."""

import functools
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import build_layers
from gpipe_edu.cluster.layer_building import build_layer, outline

from . import layer_jobs
from .on_ranks import run

pytestmark = pytest.mark.slow


SCHEDULES = {
    "1f1b": ge.one_f_one_b(2, 4),
    "three stages": ge.gpipe(3, 4),
    "interleaved": ge.interleaved(2, 4, 2),
    "zero bubble": ge.zero_bubble(3, 4),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", SCHEDULES)
def test_layers_that_ranks_build_train_as_the_whole_net_does(group, name):
    schedule = SCHEDULES[name]
    assert max(run(group, schedule.devices, layer_jobs.trained, schedule)) < 1e-10
    assert max(run(group, schedule.devices, layer_jobs.whole_net, schedule)) < 1e-10


def test_each_layer_is_built_once_on_the_rank_that_has_it(group):
    first, last = run(group, 2, layer_jobs.calls)
    assert [a + b for a, b in zip(first, last, strict=True)] == [1] * 7
    assert first[:2] == [1, 1]
    assert last[-1] == 1


def test_layers_of_one_kind_have_other_numbers_and_each_seed_others():
    torch.manual_seed(0)
    net = build_layers([partial(nn.Linear, 4, 4)] * 3)
    assert not torch.equal(net[0].weight, net[1].weight)
    torch.rand(5)
    assert torch.equal(build_layers([partial(nn.Linear, 4, 4)] * 3)[2].weight, net[2].weight)
    torch.manual_seed(1)
    other = build_layers([partial(nn.Linear, 4, 4)] * 3)
    assert not any(torch.equal(one.weight, another.weight) for one in net for another in other)


def test_building_layers_leaves_the_generator_as_it_was():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    build_layers([partial(nn.Linear, 4, 4)] * 3)
    assert torch.equal(torch.rand(3), expected)
    assert torch.initial_seed() == 0


@pytest.mark.parametrize("replicas", [False, True])
def test_ranks_with_other_seeds_are_told(group, replicas):
    for said in run(group, 2, layer_jobs.other_seeds, replicas):
        assert said.startswith("rank 1 has ")
        if replicas:
            assert "built another network than rank 0, first at 0.weight: the numbers in it are others" in said
        else:
            assert "rank 1 has torch.initial_seed() 7, and rank 0 has 3: give the same" in said


def test_what_is_loaded_need_not_have_been_built_from_one_seed(group, tmp_path):
    first, again = run(group, 2, layer_jobs.loaded, str(tmp_path))[-1]
    assert float(first) == float(again)


class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(3, device="cpu"))


def known_number():
    return nn.Linear(5, int(torch.tensor(3.0).item()))


REFUSED = {
    "layers": (
        lambda: [nn.Linear(5, 3), nn.Tanh()],
        "TypeError: layer 0 of the list is a Linear; a list has",
    ),
    "no layer": (lambda: [nn.Tanh, dict], "TypeError: the function for layer 1 gave back a dict"),
    "needs numbers": (lambda: [nn.Tanh, known_number], "layer 1 can't be built under torch.device('meta')"),
    "elsewhere": (lambda: [nn.Tanh, Fixed], "ValueError: table of layer 1 is on cpu"),
    "a layer from outside": (
        lambda: [nn.Tanh, partial(lambda layer: layer, nn.Linear(5, 3))],
        "ValueError: weight of layer 1 is on cpu although",
    ),
    "a net on the device meta": (
        lambda: nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 3)).to("meta"),
        "weight is on the device meta, where it has no numbers: give a list of functions",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_built_by_ranks_is_refused_on_all_of_them(group, name):
    make, words = REFUSED[name]
    for said in run(group, 2, layer_jobs.refused, make):
        assert words in said


def test_a_function_that_gives_back_one_layer_twice_is_refused():
    builder = functools.cache(partial(nn.Linear, 5, 5))
    outline([builder])
    with pytest.raises(ValueError, match="layer 0 gave back a Linear whose weight it had built before"):
        build_layer(builder, 0)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is asked of Linux")
def test_100_layers_on_4_ranks_never_stand_in_one_memory(group):
    """Each rank has 100 of 400 MiB; that the measure sees what there is, the whole net on one rank shows."""
    [whole] = run(group, 1, layer_jobs.peak, 0)
    assert whole > 390
    assert max(run(group, 4, layer_jobs.peak, 4)) < 0.5 * whole
