"""Layers measured one by one: the figures are right, the balance follows, and the model does not notice."""

import copy

import torch
from torch import nn

from gpipe_edu.pytorch import Stash, Take, balance_by_memory, balance_by_time, profile
from tests.refusals import refusals


def test_bytes_are_those_of_the_tensors():
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    first, tanh, last = profile(net, torch.randn(10, 8), repeats=1)
    assert [layer.parameters for layer in (first, tanh, last)] == [4 * (8 * 16 + 16), 0, 4 * (16 * 4 + 4)]
    # Linear saves its input, Tanh its output.
    assert [layer.activations for layer in (first, tanh, last)] == [4 * 10 * 8, 4 * 10 * 16, 4 * 10 * 16]


def test_a_layer_with_far_more_work_gets_a_stage_of_its_own():
    net = nn.Sequential(*(nn.Linear(16, 16) for _ in range(5)), nn.Linear(16, 4096), nn.Linear(4096, 16))
    counts = balance_by_time(net, torch.randn(512, 16), 2)
    assert sum(counts) == 7
    assert counts[1] < counts[0]
    assert balance_by_memory(net, torch.randn(1, 16), 2) == (6, 1)


def test_profiling_leaves_the_model_and_the_random_state_as_they_were():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8))
    net[0].weight.grad = torch.ones_like(net[0].weight)
    net[2].eval()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    profile(net, torch.randn(6, 8, generator=torch.Generator().manual_seed(1)))
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(net[0].weight.grad, torch.ones_like(net[0].weight))
    assert net[3].weight.grad is None
    assert [layer.training for layer in net] == [True, True, False, True]


def test_skips_and_tuples_pass_through():
    class Twice(nn.Module):
        def forward(self, x):
            return x, x * 2

    class Add(nn.Module):
        def forward(self, pair):
            return pair[0] + pair[1]

    net = nn.Sequential(Stash("a"), nn.Linear(4, 4), Twice(), Add(), Take("a", torch.add))
    assert len(profile(net, torch.randn(3, 4))) == 5


test_what_is_no_model_or_sample_is_refused = refusals(
    (TypeError, "net is a Linear", lambda: profile(nn.Linear(2, 2), torch.randn(1, 2))),
    (TypeError, "the sample is list", lambda: profile(nn.Sequential(nn.Linear(2, 2)), [1.0])),
)
