"""Every difference between two networks shows in their fingerprints, whatever their tensors are."""

import copy

import pytest
import torch
from torch import nn

from gpipe_edu.cluster.agreement import fingerprint


def holder(tensor):
    module = nn.Module()
    module.register_buffer("held", tensor, persistent=False)
    return module


def difference(one, other):
    return fingerprint(holder(one))["held"].differs(fingerprint(holder(other))["held"])


TENSORS = {
    "float64": torch.linspace(0, 1, 6).double().reshape(2, 3),
    "bfloat16": torch.linspace(0, 1, 6).bfloat16(),
    "one number": torch.tensor(3.0),
    "a count": torch.tensor(3),
    "truth": torch.tensor([True, False]),
    "complex": torch.tensor([1j, 2]),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "every second": torch.arange(6.0)[::2],
}


@pytest.mark.parametrize("name", TENSORS)
def test_one_number_that_differs_shows(name):
    tensor = TENSORS[name]
    other = copy.deepcopy(tensor)
    assert difference(tensor, other) == ""
    first = other.view(-1) if other.is_contiguous() else other.T[0] if other.ndim > 1 else other
    first[:1] = ~first[:1] if other.dtype is torch.bool else first[:1] + 1
    assert difference(tensor, other) == "the numbers in it are others"


def test_the_same_numbers_in_another_order_show():
    numbers = torch.arange(4.0)
    assert difference(numbers, numbers.flip(0)) == "the numbers in it are others"


def test_how_numbers_lie_in_memory_does_not_matter():
    numbers = torch.arange(6.0).reshape(2, 3)
    assert difference(numbers, numbers.T.contiguous().T) == ""


def test_a_tensor_without_numbers_has_a_shape_and_a_type():
    """On the device "meta" lie layers that this rank does not keep, perhaps."""
    there, nowhere = torch.ones(3), torch.ones(3, device="meta")
    assert difference(there, nowhere) == difference(nowhere, there) == ""
    assert "float32 of shape (4,), here float32 of shape (3,)" in difference(nowhere, torch.ones(4))
    assert difference(torch.ones(0), torch.ones(0)) == ""


def test_a_weight_that_two_layers_share_is_named_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    apart = list(fingerprint(net))
    net[1].weight = net[0].weight
    assert set(apart) - set(fingerprint(net)) == {"1.weight"}
