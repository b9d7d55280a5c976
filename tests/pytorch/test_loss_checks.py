"""A loss that gives something else in micro-batches than for all samples is named, and no other."""

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gpipe_edu.pytorch import GPipe
from tests import losses
from tests.losses import ALIKE, APART, NUMBERS, UNEVEN, M


def said(loss, y, steps=1, schedule="1f1b", reduction="mean", pipe=None, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        pipe = pipe or GPipe(losses.net(), 2, M, schedule=schedule, **options)
        for _ in range(steps):
            pipe.step(NUMBERS, y, loss, reduction)
    return [str(one.message) for one in found]


@pytest.mark.parametrize("name", APART)
@pytest.mark.parametrize("options", [{"schedule": "1f1b"}, {"schedule": "gpipe", "checkpoint": "always"}])
def test_a_loss_that_does_not_separate_is_told_once(name, options):
    (found,) = said(*APART[name], steps=2, **options)
    assert found.startswith("loss_fn does not separate over samples: for two micro-batches it gives ")
    assert "keep these next to each other in the mini-batch" in found
    assert found.endswith("loss_fn(pipe(x), y).backward(); check_loss=False says that you know")


@pytest.mark.parametrize("name", UNEVEN)
def test_cross_entropy_that_counts_other_targets_inside_of_a_function_is_told(name):
    (found,) = said(*UNEVEN[name], steps=2)
    assert found.startswith("cross entropy inside of loss_fn averaged over ")
    assert "as loss_fn give nn.CrossEntropyLoss(...)" in found


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.filterwarnings("error")
def test_a_loss_that_is_right_is_not(name):
    assert said(*ALIKE[name], steps=4) == []


def test_sums_are_compared_with_sums_and_weights_of_ones_own_are_not():
    assert said(lambda output, y: F.mse_loss(output, y, reduction="sum"), NUMBERS, reduction="sum") == []
    assert len(said(lambda output, y: (output - y).norm(), NUMBERS, reduction="sum")) == 1
    assert said(*APART["a correlation"], reduction=[0.25] * 4) == []


def test_the_switch_turns_it_off():
    assert said(*APART["a correlation"], check_loss=False) == []
    assert said(*UNEVEN["padded targets"], check_loss=False) == []


def test_what_shows_later_is_told_in_step_4():
    """Where each of the first mini-batches has as many targets in each micro-batch."""
    even, calls = torch.tensor([0, 1, 2, 3] * 4), []

    def loss(output, y):
        return F.cross_entropy(output, y, ignore_index=0)

    pipe = GPipe(losses.net(), 2, M)
    for step in range(1, 6):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            pipe.step(NUMBERS, even if step < 3 else losses.PADDED, loss)
        calls += [step] * len(found)
    assert calls == [4]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, output, y):
        self.calls += 1
        return F.mse_loss(output, y)


def test_the_loss_keeps_what_it_holds():
    """It is called once more, off the graph, and a list or a buffer of its own is as if it had not been."""
    seen, module = [], Counting()

    def loss(output, y):
        seen.append(len(y))
        return F.mse_loss(output, y)

    assert said(loss, NUMBERS, checkpoint="never") == []
    assert seen == [4] * M
    assert said(module, NUMBERS, checkpoint="never") == []
    assert float(module.calls) == M


def test_gradients_are_what_they_are_without_a_look():
    expected, pipe = losses.net(), GPipe(losses.net(), 2, M)
    F.mse_loss(expected(NUMBERS), NUMBERS).backward()
    pipe.step(NUMBERS, NUMBERS, F.mse_loss)
    for one, other in zip(expected.parameters(), pipe.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-12)


def test_a_failed_step_leaves_nothing_that_a_copy_or_a_file_could_not_have():
    def loss(output, y):
        if y[0, 0] == NUMBERS[8, 0]:
            raise KeyError("third")
        return F.mse_loss(output, y)

    pipe = GPipe(losses.net(), 2, M)
    with pytest.raises(KeyError):
        pipe.step(NUMBERS, NUMBERS, loss)
    assert len(said(*APART["a correlation"], pipe=pickle.loads(pickle.dumps(pipe)))) == 1  # its second step
    assert len(said(*APART["a correlation"], pipe=copy.deepcopy(pipe))) == 1


def test_a_compiled_loss_is_compared_as_it_was_before_and_not_compiled_for_that():
    compiled = {}
    for check in (True, False):
        torch.compiler.reset()
        graphs = []

        def count(graph, _, graphs=graphs):
            graphs.append(graph)
            return graph

        told = said(torch.compile(APART["a correlation"][0], backend=count), NUMBERS, check_loss=check)
        assert len(told) == int(check)
        compiled[check] = len(graphs)
    assert compiled[True] == compiled[False] > 0
