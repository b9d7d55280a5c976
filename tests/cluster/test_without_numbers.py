"""Layers run without numbers, and are afterwards as they were: whatever a forward sets, and whatever it raises."""

import pytest
import torch
from torch import nn

from gpipe_edu.cluster.boundaries import Boundary, StageLayers, boundaries
from gpipe_edu.pytorch.stage import MAIN
from gpipe_edu.pytorch.trial import without_numbers

from . import jobs, test_gate

EXAMPLE = Boundary.of({MAIN: torch.zeros(3, 5).double()})


class Repeated(nn.Module):
    """One cell three times, and another list of its weights."""

    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList([nn.Linear(5, 5)] * 3)
        self.weights = [self.cells[0].weight, self.cells[0].bias]

    def forward(self, x):
        for cell in self.cells:
            x = cell(x).tanh()
        return nn.functional.linear(x, *self.weights)


class Turned(nn.Module):
    """Multiplied by a table that others have, too."""

    def __init__(self, table):
        super().__init__()
        self.linear, self.table = nn.Linear(5, 5), table

    def forward(self, x):
        return self.table(self.linear(x))


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("angles", torch.rand(5))
        self.kept = None

    def forward(self, x):
        self.kept = self.angles.cos() if self.kept is None else self.kept
        return x * self.kept


def tied():
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))
    net[2].weight = net[0].weight
    return net


class Turns(nn.Module):
    """A recurrent layer that takes time first, called in a way of its own."""

    def __init__(self, call):
        super().__init__()
        self.lstm, self.call = nn.LSTM(5, 5), call

    def forward(self, x):
        return self.call(self.lstm, x)


def turned():
    table = Table()
    return nn.Sequential(Turned(table), Turned(table))


NETS = {
    "one layer twice": lambda: nn.Sequential(*[nn.Linear(5, 5)] * 4),
    "a list of one cell": lambda: nn.Sequential(Repeated()),
    "one table of two blocks": turned,
    "two layers with one weight": tied,
    "a recurrent layer": lambda: nn.Sequential(Turns(lambda lstm, x: lstm(x[None])[0][0])),
    "a normed weight": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(5, 5))),
    "all that a forward can set": lambda: nn.Sequential(test_gate.Busy(), nn.BatchNorm1d(5)),
}


@pytest.mark.parametrize("name", NETS)
def test_layers_are_as_before_and_still_work(name):
    net, x = NETS[name]().double(), torch.randn(4, 5).double()
    net[0].requires_grad_(False)
    before = jobs.state_of(net)
    stage = StageLayers(0, net, [])
    assert boundaries([stage], EXAMPLE, 4) == [EXAMPLE, EXAMPLE]
    assert jobs.state_of(net) == before
    assert stage({MAIN: x})[MAIN].device == x.device, "nothing is kept of what had no numbers"


@pytest.mark.parametrize("error", [TypeError, ValueError, KeyError, RuntimeError])
def test_whatever_is_raised(error):
    def fail(x):
        raise error("no")

    net = nn.Sequential(test_gate.Busy(), test_gate.Busy(fail)).double()
    before = jobs.state_of(net)
    with pytest.raises((TypeError, ValueError), match="no"):
        boundaries([StageLayers(0, net, [])], EXAMPLE, 4)
    assert jobs.state_of(net) == before


def test_meanwhile_weights_have_no_numbers_and_keep_class_attributes_and_ties():
    net = tied()
    net[0].weight.mine = 3
    with without_numbers(net):
        weight = net[0].weight
        assert weight.is_meta
        assert isinstance(weight, nn.Parameter)
        assert weight is net[2].weight
        assert weight.mine == 3
    assert not net[0].weight.is_meta


def rows_of_an_image(lstm, x):
    """Over its rows, with all columns of all samples side by side."""
    return lstm(x.transpose(0, 1).flatten(1, 2))[0].unflatten(1, (len(x), -1)).transpose(0, 1)


def each_sample(lstm, x):
    return torch.stack([lstm(one)[0] for one in x])


def turned_around(lstm, x):
    return lstm(x.transpose(0, 1))[0].transpose(0, 1)


STEPS = [2, 3, 22]
"""Also as many as the samples that a stage is tried with."""


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(("call", "shape"), [(rows_of_an_image, (3, 5)), (each_sample, (5,)), (turned_around, (5,))])
def test_layers_that_take_time_first_and_turn_it_are_right_for_any_number_of_steps(call, shape, steps):
    net, example = nn.Sequential(Turns(call)), Boundary.of({MAIN: torch.zeros(4, steps, *shape)})
    assert boundaries([StageLayers(0, net, [])], example, 4)[1] == example


@pytest.mark.parametrize("steps", STEPS)
def test_time_first_is_refused_for_any_number_of_samples(steps):
    """A layer that gets, as one sample, all samples of one step."""
    net, example = nn.Sequential(Turns(lambda lstm, x: lstm(x)[0])), Boundary.of({MAIN: torch.zeros(4, steps, 5)})
    with pytest.raises(ValueError, match="takes time first"):
        boundaries([StageLayers(0, net, [])], example, 4)
