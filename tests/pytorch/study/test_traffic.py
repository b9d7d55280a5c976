"""What is said to be sent against what the engine's workers put into each other's inboxes."""

import copy
from collections import Counter

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe, Stash, Take
from gpipe_edu.pytorch.interpreter import Exchange
from gpipe_edu.pytorch.study.traffic import Crossing, traffic

BALANCE = (3, 1, 2, 2)


@pytest.fixture
def skipping():
    """Skip "far" passes two stages by, "near" goes to the next one, "inside" stays in a stage."""
    return nn.Sequential(
        nn.Linear(4, 8), Stash("far"), nn.Sequential(Stash("inside"), nn.Tanh(), Take("inside", torch.add)),
        nn.Sequential(nn.Linear(8, 2), nn.Dropout(0.5)),
        nn.Linear(2, 6), Stash("near"),
        nn.Sequential(Take("near", torch.mul), nn.Linear(6, 8)), Take("far", torch.add),
    )  # fmt: skip


def test_it_counts_bytes_per_way(skipping):
    assert traffic(skipping, torch.randn(5, 4), BALANCE) == [
        Crossing("", 0, 1, 5 * 8 * 4),
        Crossing("far", 0, 3, 5 * 8 * 4),
        Crossing("", 1, 2, 5 * 2 * 4),
        Crossing("", 2, 3, 5 * 6 * 4),
        Crossing("near", 2, 3, 5 * 6 * 4),
    ]


def test_it_is_what_the_workers_send_forward_and_back(skipping, monkeypatch):
    posted = Counter()
    send = Exchange.send

    def count(self, worker, address, value):
        posted[address.kind, address.micro_batch] += 1
        send(self, worker, address, value)

    monkeypatch.setattr(Exchange, "send", count)
    M = 3
    GPipe(skipping, 4, M, BALANCE, devices=["cpu"]).step(torch.randn(15, 4), torch.randn(15, 8), nn.MSELoss())
    expected = len(traffic(skipping, torch.randn(5, 4), BALANCE))
    # Besides what stages send to each other, the input is fed in and the loss comes out; the input's gradient too.
    assert posted == {("F", m): expected + 2 for m in range(M)} | {("G", m): expected + 1 for m in range(M)}


def test_a_tuple_counts_with_all_its_tensors():
    class Twice(nn.Module):
        def forward(self, x):
            return x, x.double()

    class First(nn.Module):
        def forward(self, pair):
            return pair[0]

    assert traffic(nn.Sequential(Twice(), First()), torch.zeros(2, 3), (1, 1)) == [Crossing("", 0, 1, 2 * 3 * (4 + 8))]


def test_the_model_and_the_random_state_stay_as_they_are(skipping):
    model = nn.Sequential(nn.BatchNorm1d(4), *skipping)
    before, sample = copy.deepcopy(model.state_dict()), torch.randn(5, 4)
    state = torch.get_rng_state()
    traffic(model, sample, (4, 1, 2, 2))
    assert torch.equal(torch.get_rng_state(), state)
    after = model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"net": nn.Linear(2, 2)}, TypeError, "net is a Linear; it must be an nn.Sequential"),
        ({"balance": (8,), "net": nn.Sequential(nn.Linear(4, 4))}, ValueError, r"balance is \(8,\)"),
        ({"balance": (3, 1, 2, 1)}, ValueError, "places 7 layers on 4 stages; net has 8 layers"),
        ({"balance": (4, 0, 2, 2)}, ValueError, "each stage needs a layer"),
        ({"sample": [1, 2]}, TypeError, "the sample is list"),
        ({"net": nn.Sequential(Stash("a"), nn.Linear(4, 4)), "balance": (1, 1)}, ValueError, "stashed but never taken"),
    ],
)
def test_bad_input_is_refused(skipping, change, error, says):
    arguments = {"net": skipping, "sample": torch.randn(5, 4), "balance": BALANCE, **change}
    with pytest.raises(error, match=says):
        traffic(**arguments)
