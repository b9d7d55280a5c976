"""Carried skips give what straight ones give, and cross every boundary on their way."""

import copy

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe, Stash, Take
from gpipe_edu.pytorch.study import carry_skips, traffic


@pytest.fixture
def crossing():
    """ "a" and "b" do not nest: "a" is taken while "b" is still on its way. "inside" never leaves its layer."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 4), Stash("a"),
        nn.Tanh(), Stash("b", keep=nn.Linear(4, 2)),
        nn.Sequential(Stash("inside"), nn.Linear(4, 4), Take("inside", torch.mul)), Take("a", torch.sub),
        nn.Linear(4, 2), Take("b", torch.mul),
    )  # fmt: skip


def grads(net, run):
    net.zero_grad()
    loss = run(net)
    return loss.item(), [weight.grad.clone() for weight in net.parameters()]


def test_outputs_and_gradients_are_those_of_straight_skips(crossing):
    x, y = torch.randn(6, 4), torch.randn(6, 2)

    def one_device(net):
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        return loss

    straight = grads(crossing, one_device)
    torch.testing.assert_close(grads(carry_skips(crossing), one_device), straight)
    pipe = GPipe(carry_skips(copy.deepcopy(crossing)), 4, 3, (2, 2, 2, 2), devices=["cpu"])
    torch.testing.assert_close(grads(pipe, lambda pipe: pipe.step(x, y, nn.MSELoss())), straight)


def test_each_boundary_on_the_way_is_crossed(crossing):
    numbers = [
        way.bytes // torch.get_default_dtype().itemsize
        for way in traffic(carry_skips(crossing), torch.randn(1, 4), (2, 2, 2, 2))
    ]
    assert numbers == [4 + 4, 4 + 4 + 2, 4 + 2]  # x and "a"; x, "a" and "b"; x and "b"


def test_without_skips_no_tuple_is_made():
    x = torch.randn(2, 4)
    assert torch.equal(carry_skips(nn.Sequential(nn.Identity()))(x), x)


def test_what_can_not_be_carried_is_refused_by_name():
    half = nn.Sequential(nn.Sequential(Stash("half"), nn.Tanh()), Take("half", torch.add))
    with pytest.raises(ValueError, match=r'"half" has one end inside a Sequential'):
        carry_skips(half)
    with pytest.raises(ValueError, match=r'"lost" is stashed but never taken'):
        carry_skips(nn.Sequential(Stash("lost")))
