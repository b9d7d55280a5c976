"""Weights that wrap others train in a pipe as on one device."""

import pytest
import torch
from torch.nn import functional as F

from gpipe_edu.pytorch import GPipe
from tests import wrapped


@pytest.mark.parametrize("kind", [wrapped.Eight, wrapped.EightOfParts])
@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_eight_bits_beside_a_weight_that_trains(kind, schedule):
    single, pipe, x = wrapped.net(kind), GPipe(wrapped.net(kind), 3, 4, schedule=schedule), torch.randn(7, 5).double()
    F.mse_loss(single(x), x).backward()
    pipe.step(x, x, F.mse_loss)
    for one, other in zip(single.parameters(), pipe.parameters(), strict=True):
        assert type(one) is type(other)
        assert (one.grad is None and other.grad is None) or torch.allclose(one.grad, other.grad, atol=1e-12)
