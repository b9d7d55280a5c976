"""Layers that look at numbers are tried with numbers, which changes nothing of them."""

import random
from collections import Counter, deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gpipe_edu.cluster.boundaries import Boundary, StageLayers, boundaries
from gpipe_edu.pytorch.stage import MAIN

from . import jobs, looking
from .looking import KINDS, Experts, Looking
from .on_ranks import run

CPU = torch.device("cpu")


def tried(layer, x, samples=4, **options):
    found = boundaries([StageLayers(0, nn.Sequential(layer), [])], Boundary.of({MAIN: x}), samples, **options)
    return [part.shape for part in found[-1].parts]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_a_layer_that_looks_at_numbers_is_tried_with_numbers_and_stays_as_it_is(name, training):
    layer = Looking(KINDS[name]).train(training)
    before = jobs.state_of(layer)
    assert tried(layer, torch.zeros(3, 5).double()) == [(5,)]
    assert jobs.state_of(layer) == before


@pytest.mark.parametrize("make", [Experts.by_where, Experts.by_nonzero, Experts.by_mask, Experts.sorted_by_expert])
def test_a_mixture_of_experts_is_tried(make):
    layer = Experts(make).double()
    before = jobs.state_of(layer)
    assert tried(layer, torch.zeros(3, 4, 6).double()) == [(4, 6)]
    assert jobs.state_of(layer) == before


class Packed(nn.Module):
    """Lengths of 0, which zeros are, PyTorch refuses."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 5, batch_first=True)

    def forward(self, value):
        x, lengths = value
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.shape[1])[0]


def test_whole_numbers_are_ones_at_first():
    assert tried(Packed(), (torch.zeros(3, 4, 5), torch.full((3,), 4))) == [(4, 5)]


def test_zeros_where_ones_fail():
    class One(nn.Module):
        def forward(self, places):
            return F.embedding(places + 0 * int(places.sum()), torch.zeros(1, 3))

    assert tried(One(), torch.zeros(3, 2, dtype=torch.long)) == [(2, 3)]


def test_numbers_have_logarithms_and_inverses():
    class Positive(nn.Module):
        def forward(self, x):
            assert x.isfinite().all()
            assert torch.linalg.inv(x).isfinite().all()
            assert x.log().isfinite().all()
            return torch.multinomial(x.flatten(1), 3)

    assert tried(Positive(), torch.zeros(3, 2, 2).double()) == [(3,)]


class Changing(nn.Linear):
    """Changes in place all that a forward can reach."""

    def __init__(self):
        super().__init__(5, 5)
        self.register_buffer("mean", torch.zeros(5))
        self.plain, self.array = torch.zeros(()), np.zeros(2)
        self.nested = {"seen": [[torch.zeros(2)], deque([1])], "counts": Counter()}
        self.cache = SimpleNamespace(keys=[], last=None)
        self.generators = [torch.Generator(), np.random.default_rng(0), random.Random(0), np.random.RandomState(0)]

    def forward(self, x):
        assert float(x.sum()) >= 0
        with torch.no_grad():
            self.weight.clamp_(-0.01, 0.01)
            self.mean += 1
        self.plain += 1
        self.array += 1
        self.nested["seen"][0][0] += 1
        self.nested["seen"][1].append(2)
        self.nested["counts"]["a"] += 1
        self.cache.keys.append(x)
        self.cache.last = x
        ours, numpys, pythons, old = self.generators
        torch.rand(2, generator=ours), numpys.random(), pythons.random(), old.rand()
        torch.rand(2), np.random.rand(), random.random()
        out = super().forward(x)
        out.sum().backward()
        return out.detach() + self.plain


def everything(layer):
    ours, numpys, pythons, old = layer.generators
    states = ours.get_state().tolist(), numpys.bit_generator.state, pythons.getstate(), old.get_state()[1].tolist()
    return repr((jobs.state_of(layer), layer.plain, layer.array, layer.nested, layer.cache, states))


def test_nothing_is_left_of_the_trial():
    layer = Changing()
    plain, keys = layer.plain, layer.cache.keys
    before = everything(layer)
    assert tried(layer, torch.zeros(3, 5)) == [(5,)]
    assert everything(layer) == before
    assert layer.plain is plain
    assert layer.cache.keys is keys
    assert layer.weight.grad is None


def test_a_layer_that_fails_on_numbers_too_says_what_it_says_of_numbers():
    class Failing(nn.Module):
        def forward(self, x):
            assert float(x.sum()) < 0, "too warm"
            return x

    with pytest.raises(ValueError, match=r"stage 0 can't be run with .* AssertionError: too warm\. It was tried"):
        tried(Failing(), torch.zeros(3, 5))


def test_what_is_made_for_the_whole_mini_batch_gets_our_words():
    class Masked(nn.Module):
        def forward(self, x):
            return x * torch.ones(13, 5)

    with pytest.raises(ValueError, match="here 2 of the mini-batch's 13 samples; where it counts on 13, let it take"):
        tried(Masked(), torch.zeros(13, 5), samples=13)


def test_a_stage_that_is_not_here_is_left_for_later():
    net = nn.Sequential(nn.Linear(5, 5), Looking(KINDS["an if"]).to("meta"))
    stages = [StageLayers(k, nn.Sequential(layer), []) for k, layer in enumerate(net)]
    first = Boundary.of({MAIN: torch.zeros(3, 5)})
    assert len(boundaries(stages, first, 3, complete=False)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("builders", [False, True])
def test_gradients_are_those_of_one_device(group, builders):
    assert max(run(group, 2, looking.trained, builders)) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("give", [Experts.by_where, Experts.by_nonzero, Experts.by_mask, Experts.sorted_by_expert])
def test_experts_train_as_on_one_device(group, give):
    assert max(run(group, 2, looking.experts, give)) < 1e-10


@pytest.mark.slow
def test_a_shape_that_numbers_decide_is_named(group):
    for said in run(group, 1, looking.of_another_shape):
        assert "stage 0 gives shape (4,) and type torch.float64 now, and gave shape (5,)" in said
