"""Layers measured one by one: the figures are right, the balance follows, and the model does not notice."""

import copy

import torch
from torch import nn

from gpipe_edu.pytorch import Stash, Take, balance_by_size, balance_by_time, profile
from tests.refusals import refusals


def test_bytes_are_those_of_the_tensors():
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    first, tanh, last = profile(net, torch.randn(10, 8), repeats=1)
    assert [layer.parameters for layer in (first, tanh, last)] == [4 * (8 * 16 + 16), 0, 4 * (16 * 4 + 4)]
    # Linear saves its input, Tanh its output.
    assert [layer.activations for layer in (first, tanh, last)] == [4 * 10 * 8, 4 * 10 * 16, 4 * 10 * 16]


def test_a_layer_with_far_more_work_gets_a_stage_of_its_own():
    net = nn.Sequential(*(nn.Linear(16, 16) for _ in range(5)), nn.Linear(16, 4096), nn.Linear(4096, 16))
    counts = balance_by_time(2, net, torch.randn(512, 16), timeout=0.2)
    assert sum(counts) == 7
    assert counts[1] < counts[0]
    assert balance_by_size(2, net, torch.randn(1, 16)) == (6, 1)


def test_what_more_micro_batches_save_weighs_less_than_parameters():
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Tanh(), nn.Linear(8, 1024))
    batch = torch.randn(4096, 8)
    assert balance_by_size(2, net, batch) == (2, 2)
    assert balance_by_size(2, net, batch, micro_batches=64) == (3, 1)
    few = balance_by_size(2, net, batch[:64], param_scale=0)
    assert few == balance_by_size(2, net, batch[:64], param_scale=1e-6) == (2, 2)


def test_layers_are_measured_as_they_train():
    """In training mode, whatever mode the net is in now, which it keeps."""

    modes = set()

    class Note(nn.Module):
        def forward(self, x):
            modes.add((self.training, torch.is_grad_enabled()))
            return x * 1

    net = nn.Sequential(Note(), nn.Linear(4, 4)).eval()
    with torch.no_grad():
        assert balance_by_time(2, net, torch.randn(2, 4), timeout=0) == (1, 1)
        balance_by_size(2, net, torch.randn(2, 4), device="cpu")
    assert modes == {(True, True)}
    assert not net.training
    assert not net[0].training


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
    (TypeError, "stages comes first", lambda: balance_by_time(nn.Sequential(nn.Linear(2, 2)), torch.randn(1, 2), 1)),
    (TypeError, "call it micro_batches", lambda: balance_by_size(1, nn.Sequential(nn.Tanh()), torch.ones(1), chunks=2)),
    (ValueError, "repeats", lambda: profile(nn.Sequential(nn.Tanh()), torch.ones(1), repeats=0)),
)
