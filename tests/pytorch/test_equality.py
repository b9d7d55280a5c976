"""Loss and gradients against plain PyTorch, over every schedule and shape."""

import copy
import itertools
import random

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe
from tests.amount import whole

from . import bench

pytestmark = pytest.mark.slow


@pytest.mark.sweep
@bench.every_way
@pytest.mark.parametrize("index", range(len(bench.NAMED) + len(bench.HAND_WRITTEN)))
def test_two_accumulated_steps_of_every_shape(index, way):
    chance = random.Random(index)
    shapes = list(itertools.product(range(1, 5), range(1, 10)))
    if not whole():
        shapes = [shapes[0], shapes[8], shapes[-9], shapes[-1], *chance.sample(shapes, 6)]  # the corners, and others
    for K, M in shapes:
        options = list(bench.variants(K, M))[index]
        N = chance.randint(1, 17)
        x, y = bench.data(N, 3, seed=N)
        net = bench.mlp(options["partitions"], 3, seed=M, norm=chance.random() < 0.5)
        loss_fn = chance.choice([bench.mse, bench.mse_sum])
        bench.compare(net, x, y, loss_fn, way, steps=2, **options)


@bench.every_way
@pytest.mark.parametrize("M", [1, 4, 9])
def test_every_number_of_samples(M, way):
    for N in range(1, 18):
        bench.compare(bench.mlp(3), *bench.data(N), way=way, partitions=3, micro_batches=M)


def test_every_way_to_finish_a_micro_batch_in_one_schedule():
    schedule = ge.Schedule.parse("F0 F1 F2 R2 B2 C1 R0 I0 W0\nF0 F1 F2 I2 C1 B0 W2")
    for way in bench.WAYS:
        bench.compare(bench.mlp(), *bench.data(11), way=way, micro_batches=3, schedule=schedule)


def test_a_weight_per_micro_batch():
    net, (x, y) = bench.mlp(), bench.data(7)
    plain = copy.deepcopy(net)
    weights = [0.5, 2.0, -1.0]
    pieces = zip(weights, x.split([3, 2, 2]), y.split([3, 2, 2]), strict=True)
    loss = sum(weight * bench.mse(plain(a), b) for weight, a, b in pieces)
    loss.backward()
    got = GPipe(net, 2, 3).step(x, y, bench.mse, reduction=weights)
    torch.testing.assert_close(got, loss.detach())
    bench.assert_same(bench.grads(net), bench.grads(plain))


def test_weights_may_be_an_array_or_a_tensor():
    numpy = pytest.importorskip("numpy")
    for weights in (numpy.array([0.5, 0.5]), torch.tensor([0.5, 0.5]), (0.5, 0.5)):
        assert GPipe(bench.mlp(), 2, 2).step(*bench.data(4), bench.mse, reduction=weights).numel() == 1


@bench.every_way
@pytest.mark.parametrize("options", bench.some_variants(2, 3))
@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (1, 2, 3), (0, 1, 2)])
def test_frozen_stages(frozen, options, way):
    net = bench.mlp(4)
    for stage in frozen:
        net[2 * stage].requires_grad_(False)
    bench.compare(net, *bench.data(7), way=way, **options)


@bench.every_way
@pytest.mark.parametrize("options", bench.some_variants(2, 3))
def test_gradients_of_inputs_leaf_and_not(options, way):
    x, y = bench.data(7)
    for leaf in (True, False):
        net, up = bench.mlp(), nn.Linear(4, 4)
        plain, plain_up = copy.deepcopy(net), copy.deepcopy(up)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        bench.mse(plain(theirs if leaf else plain_up(theirs)), y).backward()
        bench.train(GPipe(net, **options), ours if leaf else up(ours), y, bench.mse, way)
        bench.assert_same({"x": ours.grad} | bench.grads(up), {"x": theirs.grad} | bench.grads(plain_up))
        bench.assert_same(bench.grads(net), bench.grads(plain))


@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
def test_a_pipe_between_other_modules(schedule):
    def build():
        torch.manual_seed(0)
        return nn.Linear(4, 4), bench.mlp(), nn.Linear(4, 4), bench.mlp(seed=3)

    a, net, b, net2 = build()
    c, plain, d, plain2 = build()
    x, y = bench.data(7)
    pipe, pipe2 = (GPipe(part, 2, 3, schedule=schedule) for part in (net, net2))
    bench.mse(pipe2(b(pipe(a(x)))), y).backward()
    bench.mse(plain2(d(plain(c(x)))), y).backward()
    for ours, theirs in ((a, c), (net, plain), (b, d), (net2, plain2)):
        bench.assert_same(bench.grads(ours), bench.grads(theirs))


def test_two_forwards_before_one_backward_and_backwards_in_any_order():
    (x, y), (u, v) = bench.data(7), bench.data(3, seed=9)
    for mode in bench.MODES:
        net = bench.mlp()
        plain, pipe = copy.deepcopy(net), GPipe(net, 2, 3, checkpoint=mode)
        (bench.mse(plain(x), y) + bench.mse(plain(u), v)).backward()
        (bench.mse(plain(x), y) * 2).backward()
        (bench.mse(pipe(x), y) + bench.mse(pipe(u), v)).backward()
        first, second = bench.mse(pipe(x), y), bench.mse(pipe(x), y)
        second.backward()
        first.backward()
        bench.assert_same(bench.grads(net), bench.grads(plain))


@pytest.mark.parametrize("mode", bench.MODES)
def test_autocast_is_carried_into_the_workers(mode):
    kinds = []

    class Look(nn.Module):
        def forward(self, x):
            kinds.append((x.dtype, torch.is_autocast_enabled("cpu")))
            return x

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), Look(), nn.Linear(4, 4), Look()).float()
    x, y = (part.float() for part in bench.data(8))
    plain, pipe = copy.deepcopy(net), GPipe(net, 2, 2, checkpoint=mode)
    for way in bench.WAYS:
        kinds.clear()
        with torch.autocast("cpu", torch.bfloat16):
            expected = bench.mse(plain(x), y)
        expected.backward()
        with torch.autocast("cpu", torch.bfloat16):
            if way == "step":
                loss = pipe.step(x, y, bench.mse)
            else:
                loss = bench.mse(pipe(x), y)
        if way == "transparent":
            loss.backward()
        assert set(kinds) == {(torch.bfloat16, True)}
        torch.testing.assert_close(loss, expected, rtol=1e-2, atol=1e-2)
    bench.assert_same(bench.grads(net), bench.grads(plain), tolerance=3e-2)
    assert not torch.is_autocast_enabled("cpu")


@bench.every_way
def test_repeated_runs_are_bitwise_equal(way):
    for options in bench.variants(2, 4):
        results = []
        for _ in range(3):
            torch.manual_seed(7)
            net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.4)) for _ in range(4)))
            loss = bench.train(GPipe(net, **options), *bench.data(11), bench.mse, way)
            results.append([loss, *bench.grads(net).values(), torch.rand(2)])
        assert all(torch.equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))
