"""The loss of a step is a plain number in all but its backward, which says that it has run."""

import copy
import io
import pickle

import pytest
import torch

from gpipe_edu.pytorch import GPipe

from . import bench


def loss():
    return GPipe(bench.mlp(), 2, 4).step(*bench.data(7), bench.mse)


def test_its_backward_has_run():
    with pytest.raises(RuntimeError, match=r"has run the backward already, .* in \.grad; leave loss\.backward\(\) out"):
        loss().backward()


def test_in_all_else_it_is_a_detached_tensor():
    found = loss()
    plain = torch.tensor(found.item())
    assert isinstance(found, torch.Tensor)
    assert not found.requires_grad
    assert (repr(found), str(found), f"{found:.3f}") == (repr(plain), str(plain), f"{plain:.3f}")
    assert float(found) == found.numpy() == plain
    for computed in (found + 1, found.clone(), 0.0 + found, torch.stack([found, found]).mean()):
        assert type(computed) is torch.Tensor


def test_copies_of_it_and_what_is_saved_are_plain():
    found, file = loss(), io.BytesIO()
    torch.save({"loss": found}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)["loss"]
    for other in (copy.deepcopy(found), copy.copy(found), pickle.loads(pickle.dumps(found)), saved):
        assert type(other) is torch.Tensor
        assert other == found


def test_it_may_be_part_of_a_loss_with_a_graph():
    weight = torch.tensor(2.0, requires_grad=True)
    (loss() + weight * 3).backward()
    assert weight.grad == 3


def test_a_tensor_of_the_users_own_kind_stays_one():
    class Own(torch.Tensor):
        pass

    x, y = (part.as_subclass(Own) for part in bench.data(7))
    assert type(GPipe(bench.mlp(), 2, 4).step(x, y, bench.mse)) is Own
