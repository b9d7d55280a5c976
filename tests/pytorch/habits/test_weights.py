"""Weights that are computed from others, added to by adapters, or used in two places."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from tests.pytorch.habits.ways import as_plain, batch, held, in_pieces, mlp, seeded, trained

pytestmark = pytest.mark.slow

WRAPPED = {
    "weight_norm": parametrizations.weight_norm,
    "orthogonal": parametrizations.orthogonal,
    "old_weight_norm": nn.utils.weight_norm,
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
    "symmetric": lambda layer: with_parametrization(layer, Symmetric()),
}


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).mT


def with_parametrization(layer, parametrization):
    parametrize.register_parametrization(layer, "weight", parametrization)
    return layer


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning")
@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@as_plain
def test_weights_that_are_computed(way, wrap):
    net = seeded(lambda: wrap(nn.Linear(6, 6)), nn.Tanh, lambda: wrap(nn.Linear(6, 6)))
    model = way.wrap(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        way.learn(model, batch(6), batch(6, seed=2))
        optimizer.step()
    return held(net)


@pytest.mark.parametrize("wrap", [WRAPPED["weight_norm"], WRAPPED["symmetric"]], ids=["weight_norm", "symmetric"])
@as_plain
def test_weights_that_are_computed_since_the_pipe_stands(way, wrap):
    net = mlp(6, 6, 6)
    model = way.wrap(net)
    way.learn(model, batch(6), batch(6, seed=2))
    wrap(net[2])
    model.zero_grad()
    way.learn(model, batch(6), batch(6, seed=2))
    return held(net)


@as_plain
def test_parametrization_taken_off_again(way):
    net = mlp(6, 6, 6)
    parametrizations.weight_norm(net[0])
    model = way.wrap(net)
    way.learn(model, batch(6), batch(6, seed=2))
    parametrize.remove_parametrizations(net[0], "weight")
    model.zero_grad()
    way.learn(model, batch(6), batch(6, seed=2))
    return held(net)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.spectral_norm` is deprecated:FutureWarning")
@in_pieces
def test_old_spectral_norm(way):
    net = seeded(lambda: nn.utils.spectral_norm(nn.Linear(6, 4)), nn.Tanh, lambda: nn.Linear(4, 3))
    return trained(way, net, batch(6))


@in_pieces
def test_spectral_norm_iterates_once_a_micro_batch(way):
    net = seeded(lambda: parametrizations.spectral_norm(nn.Linear(6, 4)), nn.Tanh, lambda: nn.Linear(4, 3))
    return trained(way, net, batch(6))


class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features, dtype=torch.float64))
        self.up = nn.Parameter(torch.randn(base.out_features, 2, dtype=torch.float64))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


@as_plain
def test_adapters_put_around_layers_before(way):
    net = mlp()
    for i in (0, 2, 4):
        net[i] = LoRA(net[i])
    return trained(way, net, batch(6))


@as_plain
def test_adapters_put_around_layers_since_the_pipe_stands(way):
    net = mlp()
    model = way.wrap(net)
    way.learn(model, batch(6), batch(3))
    for i in (0, 2, 4):
        net[i] = LoRA(net[i])
    model.zero_grad()
    way.learn(model, batch(6), batch(3))
    return held(net)


@as_plain
def test_adapters_merged_into_their_weights(way):
    net = mlp()
    net[0] = LoRA(net[0])
    model = way.wrap(net)
    way.learn(model, batch(6), batch(3))
    with torch.no_grad():
        net[0].base.weight += net[0].up @ net[0].down
        net[0].up.zero_()
    return way.learn(model, batch(6), batch(3))


@as_plain
def test_one_weight_used_twice_in_a_stage(way):
    net = mlp(6, 6, 6, 6)
    net[2].weight = net[0].weight
    return trained(way, net, batch(6), balance=[4, 2])


class AutoEncoder(nn.Module):
    """Its second matrix is its first one, transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        return F.linear(F.linear(x, self.weight).tanh(), self.weight.T)


@as_plain
def test_one_weight_used_twice_in_a_layer(way):
    return trained(way, seeded(AutoEncoder, AutoEncoder), batch(6))
