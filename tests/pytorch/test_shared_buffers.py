"""A buffer that several stages hold: right where it is read, refused where a step writes to it."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.guards import one_layer_on_one_gpu
from gpipe_edu.pytorch.shared_buffers import SharedBuffers

from . import bench

X, Y = bench.data(7)


class Rotary(nn.Module):
    """Cosines that all blocks share. They are added, so that autograd does not want them unchanged."""

    def __init__(self, write=None):
        super().__init__()
        self.register_buffer("cosines", torch.tensor([1.0, 0.5, -0.5, 2.0]))
        self.register_buffer("nothing", torch.empty(0))
        self.write = write

    def forward(self, x):
        if self.write:
            self.write(self)
        return x + self.cosines


class Block(nn.Module):
    def __init__(self, rotary):
        super().__init__()
        self.rotary, self.linear = rotary, nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.linear(self.rotary(x)))


def in_place(layer):
    layer.cosines.mul_(1.5)


def by_another(layer):
    layer.cosines = layer.cosines * 1.5


def of_one_layer(write=None):
    torch.manual_seed(0)
    rotary = Rotary(write)
    return nn.Sequential(*(Block(rotary) for _ in range(4)))


def of_one_buffer(write=None):
    net = of_one_layer()
    for block in net:
        block.rotary = Rotary(write)
        block.rotary.cosines = net[0].rotary.cosines
    return net


@bench.every_way
@pytest.mark.parametrize("make", [of_one_layer, of_one_buffer])
def test_a_buffer_that_is_read_is_as_on_one_device(make, way):
    for arguments in bench.some_variants(2, 3):
        if way == "transparent" and arguments["schedule"] not in ("naive", "gpipe"):
            continue
        net = make()
        plain, held = copy.deepcopy(net), net[0].rotary.cosines
        bench.mse(plain(X), Y).backward()
        bench.train(GPipe(net, **{"micro_batches": 3, **arguments}), X, Y, bench.mse, way)
        bench.assert_same(bench.grads(net), bench.grads(plain))
        assert all(block.rotary.cosines is held for block in net)


def test_a_recompute_leaves_it_in_its_place_for_the_other_stages():
    """They would read, and put back, what one stage has put there for a moment."""
    found = set()
    net = of_one_layer(lambda layer: found.add(id(layer.cosines)))
    held = id(net[0].rotary.cosines)
    GPipe(net, 2, 3, checkpoint="always").step(X, Y, bench.mse)
    assert found == {held}


@bench.every_way
@pytest.mark.parametrize("write", [in_place, by_another])
@pytest.mark.parametrize("make", [of_one_layer, of_one_buffer])
def test_one_that_is_written_to_is_refused_and_gives_no_gradients(make, write, way):
    net = make(write)
    pipe = GPipe(net, 2, 3)
    with pytest.raises(ValueError, match=r"several stages share \(Rotary\.cosines in stage 0.*buffer\.clone\(\)"):
        bench.train(pipe, X, Y, bench.mse, way)
    assert all(weight.grad is None for weight in net.parameters())


def test_a_sparse_one_has_no_one_memory_and_is_looked_at_all_the_same():
    layer = nn.Module()
    layer.register_buffer("sparse", torch.eye(2).to_sparse())
    shared = SharedBuffers([[layer], [layer]])
    with shared.of_step():
        layer.sparse = layer.sparse * 2
    with pytest.raises(ValueError, match=r"Module\.sparse in stage 0, Module\.sparse in stage 1"):
        shared.check()


def test_in_one_stage_it_may_be_written_to():
    net = of_one_layer(by_another)
    net = nn.Sequential(nn.Sequential(net[0], net[1]), nn.Linear(4, 4))
    GPipe(net, 2, 3).step(X, Y, bench.mse)


def test_running_means_of_two_stages_are_refused_at_once():
    norm = nn.BatchNorm1d(4)
    with pytest.raises(ValueError, match=r"'BatchNorm1d' is used in stage 0 and in stage 1, and writes to its buffers"):
        GPipe(nn.Sequential(nn.Linear(4, 4), norm, nn.Linear(4, 4), norm), 2, 3)
    bare = nn.BatchNorm1d(4, track_running_stats=False)
    GPipe(nn.Sequential(nn.Linear(4, 4), bare, nn.Linear(4, 4), bare), 2, 3)


@pytest.mark.parametrize(
    ("layer", "do"), [(Rotary(), r": copy\.deepcopy\(layer\)$"), (nn.Linear(4, 4), "other.weight =")]
)
def test_a_layer_of_two_gpus_is_refused_with_what_fits_it(layer, do):
    homes = {k: SimpleNamespace(device=torch.device("cuda", k)) for k in range(2)}
    kind = type(layer).__name__
    with pytest.raises(ValueError, match=f"one {kind} is used in stage 0 on cuda:0 and in stage 1 on cuda:1.*{do}"):
        one_layer_on_one_gpu([[layer], [layer]], homes)
    one_layer_on_one_gpu([[layer], [layer]], {0: homes[0], 1: homes[0]})
    one_layer_on_one_gpu([[nn.Tanh()], [nn.Tanh()]], homes)
