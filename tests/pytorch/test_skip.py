"""Skip connections: inside a stage, to the next, over several; and those that cannot work."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe, Stash, Take
from tests.each import each

from . import bench


def unet(width=4):
    """Five pairs of layers; skip "a" goes from the first to the last, "b" one pair on, "c" stays inside a pair."""
    torch.manual_seed(0)

    def linear():
        return nn.Sequential(nn.Linear(width, width), nn.Tanh())

    return nn.Sequential(
        linear(), Stash("a", nn.Linear(width, width)),
        linear(), Stash("b"),
        linear(), Take("b", torch.mul),
        nn.Sequential(linear(), Stash("c"), linear(), Take("c", torch.add)), linear(),
        linear(), Take("a", lambda x, skip: torch.tanh(x + 2 * skip)),
    )  # fmt: skip


@pytest.mark.sweep
@bench.every_way
@pytest.mark.parametrize("K", [1, 2, 3, 5, 10])
def test_named_schedules(K, way):
    for schedule, mode in bench.NAMED:
        bench.compare(
            unet(), *bench.data(7), way=way, partitions=K, micro_batches=3, schedule=schedule, checkpoint=mode
        )


@bench.every_way
@pytest.mark.parametrize("name", bench.HAND_WRITTEN)
def test_schedules_written_by_hand(name, way):
    schedule = bench.HAND_WRITTEN[name](5 if "inter" not in name else 4, 3)
    K, M = schedule.stages, schedule.micro_batches
    bench.compare(unet(), *bench.data(7), way=way, steps=2, partitions=K, micro_batches=M, schedule=schedule)


@bench.every_way
@pytest.mark.parametrize("frozen", [(0,), (0, 1, 2, 3), (4, 5, 6), (1,)])
@pytest.mark.parametrize("mode", bench.MODES)
def test_frozen_stages(mode, frozen, way):
    net = unet()
    for index in frozen:
        net[index].requires_grad_(False)
    bench.compare(net, *bench.data(7), way=way, partitions=5, micro_batches=3, checkpoint=mode)


@bench.every_way
@pytest.mark.parametrize("mode", bench.MODES)
def test_a_skip_of_the_input_itself_and_one_that_ends_in_the_loss(mode, way):
    net = nn.Sequential(Stash("x"), nn.Linear(4, 4), nn.Linear(4, 4), Take("x", torch.sub))
    plain, pipe = copy.deepcopy(net), GPipe(net, 4, 3, checkpoint=mode)
    x, y = bench.data(7)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    bench.mse(plain(theirs), y).backward()
    bench.train(pipe, ours, y, bench.mse, way)
    torch.testing.assert_close(ours.grad, theirs.grad)
    bench.assert_same(bench.grads(net), bench.grads(plain))


@bench.every_way
@pytest.mark.parametrize("mode", bench.MODES)
def test_a_skip_whose_gradient_is_zero_because_nobody_uses_it(mode, way):
    net = nn.Sequential(nn.Linear(4, 4), Stash("a", nn.Linear(4, 4)), nn.Linear(4, 4), Take("a", lambda x, skip: x))
    bench.compare(net, *bench.data(7), way=way, partitions=4, checkpoint=mode)


@bench.every_way
@pytest.mark.parametrize("mode", bench.MODES)
def test_two_skips_that_cross_each_other(mode, way):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 4), Stash("a"), nn.Linear(4, 4), Stash("b"), nn.Linear(4, 4), Take("a", torch.mul),
        nn.Linear(4, 4), Take("b", torch.add),
    )  # fmt: skip
    bench.compare(net, *bench.data(7), way=way, partitions=4, checkpoint=mode)


def test_evaluation_passes_skips_and_plain_sequential_agrees():
    net = unet()
    x = bench.data(7)[0]
    torch.testing.assert_close(GPipe(net, 5, 3).eval()(x), net(x))


def test_a_skip_is_gone_once_taken():
    made = []

    class Keep(nn.Module):
        def forward(self, x):
            out = x * 3
            made.append(weakref.ref(out))
            return out

    net = nn.Sequential(nn.Linear(4, 4), Stash("a", Keep()), nn.Linear(4, 4), Take("a", torch.add))
    pipe = GPipe(net, 4, 3)
    pipe.eval()(bench.data(7)[0])
    pipe.train().step(*bench.data(7), bench.mse)
    gc.collect()
    assert made
    assert all(ref() is None for ref in made)


L = nn.Identity


@each(
    "telling, layers",
    [
        ("stashed but never taken", [Stash("a"), L(), L()]),
        ("taken but never stashed", [L(), L(), Take("a", torch.add)]),
        ("stashed twice", [Stash("a"), Stash("a"), Take("a", torch.add)]),
        ("taken twice", [Stash("a"), Take("a", torch.add), Take("a", torch.add)]),
        ("before", [Take("a", torch.add), L(), Stash("a")]),
        ("before", [L(), L(), nn.Sequential(Take("a", torch.add), Stash("a"))]),
    ],
)
@each("K", [1, 2, 3])
def test_what_cannot_work_is_refused_before_anything_runs(K, telling, layers):
    with pytest.raises(ValueError, match=telling) as caught:
        GPipe(nn.Sequential(*layers), K, 2)
    assert '"a"' in str(caught.value)


def test_taking_in_plain_torch_what_nobody_stashed():
    with pytest.raises(RuntimeError, match='Stash\\("a"\\)'):
        Take("a", torch.add)(torch.zeros(2))


@pytest.mark.parametrize("mode", bench.MODES)
def test_changing_a_received_skip_in_place(mode):
    net = nn.Sequential(nn.Linear(4, 4), Stash("a"), nn.Linear(4, 4), Take("a", lambda x, skip: skip.add_(x)))
    with pytest.raises(ValueError, match="in place"):
        GPipe(net, 4, 2, checkpoint=mode).step(*bench.data(4), bench.mse)


def test_a_stash_that_does_not_run_is_told_by_name():
    class Perhaps(nn.Module):
        def __init__(self):
            super().__init__()
            self.stash = Stash("a")

        def forward(self, x):
            return x

    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), Perhaps(), nn.Linear(4, 4), Take("a", torch.add)), 2, 2)
    with pytest.raises((RuntimeError, ValueError), match='"a"'):
        pipe.step(*bench.data(4), bench.mse)
