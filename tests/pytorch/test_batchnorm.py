"""Batch normalization: what its running statistics see, deferred and not."""

import copy

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import bench

pytestmark = pytest.mark.slow


def one_norm(dims, stage, momentum):
    """A single normalization, in stage 0 or 1, so that its inputs are those of the whole batch."""
    torch.manual_seed(0)
    if dims == 1:
        norm = nn.BatchNorm1d(4, momentum=momentum)
        front, back = [nn.Linear(4, 4), nn.Tanh()], [nn.Linear(4, 4), nn.Identity()]
    else:
        norm = nn.BatchNorm2d(3, momentum=momentum)
        front, back = [nn.Conv2d(1, 3, 1), nn.Tanh()], [nn.Flatten(), nn.Linear(12, 4)]
    layers = [*front, norm, nn.Tanh(), *back]
    return nn.Sequential(*layers), norm, ([4, 2] if stage == 0 else [2, 4])


def inputs(dims, N, seed=1):
    x, y = bench.data(N, seed=seed)
    return (x if dims == 1 else x.reshape(N, 1, 2, 2)), y


def statistics(norm):
    return {name: buffer.clone() for name, buffer in norm.named_buffers()}


def assert_statistics(ours, theirs):
    for name, want in statistics(theirs).items():
        torch.testing.assert_close(statistics(ours)[name], want, rtol=1e-10, atol=1e-10)


@bench.every_way
@pytest.mark.parametrize("mode", bench.MODES)
@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dims", [1, 2])
def test_deferred_statistics_are_those_of_the_whole_batch(dims, momentum, mode, way):
    for stage in (0, 1):
        net, norm, balance = one_norm(dims, stage, momentum)
        plain = copy.deepcopy(net)
        pipe = GPipe(net, 2, 4, balance=balance, checkpoint=mode, deferred_batch_norm=True)
        for step, N in enumerate((11, 8, 13)):
            x, y = inputs(dims, N, step)
            x = x + 5 * step
            plain(x)
            bench.train(pipe, x, y, bench.mse, way)
            assert_statistics(norm, plain[2])
        assert int(norm.num_batches_tracked) == 3


def test_deferred_statistics_far_from_zero():
    """Sums of squares lose digits if the mean is large against the deviation."""
    net = nn.Sequential(nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 4))
    plain, (x, y) = copy.deepcopy(net), bench.data(64)
    x = x * 0.1 + 1e3
    plain(x)
    GPipe(net, 2, 4, deferred_batch_norm=True).step(x, y, bench.mse)
    torch.testing.assert_close(net[0].running_var, plain[0].running_var, rtol=1e-8, atol=0)


def micro_batched(net, x, y, M):
    """One device that cuts the batch alike, one after another."""
    for a, b in zip(torch.tensor_split(x, M), torch.tensor_split(y, M), strict=True):
        (bench.mse(net(a), b) * len(a) / len(x)).backward()


@pytest.mark.sweep
@bench.every_way
@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("momentum", [0.1, None])
def test_gradients_and_statistics_equal_one_device_that_cuts_alike(momentum, deferred, way):
    for options in bench.some_variants(2, 4):
        torch.manual_seed(0)
        stages = options["partitions"]
        blocks = (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=momentum)) for _ in range(stages))
        net = nn.Sequential(*blocks)
        plain = copy.deepcopy(net)
        pipe = GPipe(net, deferred_batch_norm=deferred, **options)
        for N in (11, 8):
            x, y = bench.data(N)
            micro_batched(plain, x, y, 4)
            bench.train(pipe, x, y, bench.mse, way)
        bench.assert_same(bench.grads(net), bench.grads(plain))
        if not deferred:
            for ours, theirs in zip(net, plain, strict=True):
                assert_statistics(ours[1], theirs[1])
                assert int(ours[1].num_batches_tracked) == 8


@pytest.mark.parametrize("deferred", [False, True])
def test_evaluation_uses_the_statistics_and_leaves_them(deferred):
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    pipe, (x, y) = GPipe(net, 2, 4, deferred_batch_norm=deferred), bench.data(11)
    pipe.step(x, y, bench.mse)
    before = statistics(net[1])
    out = pipe.eval()(x)
    torch.testing.assert_close(out, net(x))
    for name, value in before.items():
        assert torch.equal(value, statistics(net[1])[name])


def test_frozen_statistics_in_a_training_pipe():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    for deferred in (False, True):
        pipe = GPipe(net, 2, 2, deferred_batch_norm=deferred)
        net[1].eval()
        before = statistics(net[1])
        pipe.step(*bench.data(6), bench.mse)
        assert all(torch.equal(value, statistics(net[1])[name]) for name, value in before.items())


def test_a_failed_step_adds_nothing_to_deferred_statistics():
    class Fails(nn.Module):
        on = False

        def forward(self, x):
            if self.on:
                raise KeyError
            return x

    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 4), Fails())
    plain, (x, y) = copy.deepcopy(net[0]), bench.data(11)
    pipe = GPipe(net, 2, 3, deferred_batch_norm=True)
    net[2].on = True
    with pytest.raises(KeyError):
        pipe.step(x + 9, y, bench.mse)
    assert int(net[0].num_batches_tracked) == 0
    assert net[0].track_running_stats
    net[2].on = False
    pipe.step(x, y, bench.mse)
    plain(x)
    assert_statistics(net[0], plain)


def test_another_normalization_with_running_statistics_is_not_counted_twice_by_a_recompute():
    results = []
    for mode in ("never", "always"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv1d(1, 2, 1), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten())
        x, y = bench.data(8)
        GPipe(net, 2, 4, checkpoint=mode).step(x[:, None], torch.cat([y, y], 1), bench.mse)
        results.append(net[1].running_mean)
    torch.testing.assert_close(*results)
