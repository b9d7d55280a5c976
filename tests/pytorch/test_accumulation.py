"""The gradients of 16-bit weights are added up over micro-batches in fp32, and rounded once."""

import copy
import functools

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.split import split_batch
from tests.rounding import HALF_A_DIGIT, added_in, share_off

from . import bench

K, M, N = 2, 32, 64
added = functools.partial(added_in, loss_fn=bench.mse, M=M)
every_type = pytest.mark.parametrize("dtype", HALF_A_DIGIT)


def net_of(dtype, layers=4):
    return bench.mlp(layers).to(dtype)


def batch(dtype):
    return tuple(part.to(dtype) for part in bench.data(N))


@pytest.mark.sweep
@every_type
@bench.every_way
def test_every_schedule_adds_up_in_fp32_and_rounds_once(dtype, way):
    net, (x, y) = net_of(dtype), batch(dtype)
    exact = added(torch.float32, net, x, y)
    for options in bench.variants(K, M):
        pipe = GPipe(copy.deepcopy(net), **options)
        if way == "step":
            pipe.step(x, y, bench.mse)
        else:  # the same losses, weighted alike
            outputs = split_batch(pipe(x), M)
            losses = [bench.mse(one, other) / M for one, other in zip(outputs, split_batch(y, M), strict=True)]
            torch.stack(losses).sum().backward()
        found = bench.grads(pipe)
        assert {gradient.dtype for gradient in found.values()} == {dtype}
        assert share_off(found, exact) == 0, options


def test_switched_off_the_sum_is_that_of_the_weights_type():
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    # One stage at a time runs its backwards in the order of the micro-batches, so even roundings are the same.
    pipe = GPipe(copy.deepcopy(net), K, M, schedule="naive", accumulate_in_fp32=False)
    pipe.step(x, y, bench.mse)
    bench.assert_same(bench.grads(pipe), added(torch.bfloat16, net, x, y), tolerance=0)
    off = share_off(bench.grads(pipe), added(torch.float32, net, x, y))
    assert off > 0.5, "or the tests above would say nothing"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wider_weights_are_added_up_in_their_own_type(dtype):
    net, (x, y) = net_of(dtype), batch(dtype)
    pipe = GPipe(copy.deepcopy(net), K, M, schedule="naive")
    pipe.step(x, y, bench.mse)
    bench.assert_same(bench.grads(pipe), added(dtype, net, x, y), tolerance=0)


def test_a_sum_may_be_large_in_between():
    """fp16 ends at 65,504."""
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Identity()).to(torch.float16)
    x = torch.tensor([[200.0]] * 3 + [[-200.0]] * 2 + [[-199.0]], dtype=torch.float16)
    pipe = GPipe(net, 2, 6)
    pipe.step(x, torch.zeros_like(x), lambda output, target: output.sum() * 128, reduction="sum")
    assert float(net[0].weight.grad) == 128


# What `.grad` is afterwards


def test_hooks_see_the_gradient_of_the_mini_batch_in_the_weights_type():
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    exact, seen = added(torch.float32, net, x, y), []
    net[0].weight.register_hook(lambda gradient: seen.append(gradient.clone()))
    net[0].weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad.clone()))
    GPipe(net, K, M).step(x, y, bench.mse)
    assert [one.dtype for one in seen] == [torch.bfloat16] * 2
    for one in seen:
        assert share_off({"0.weight": one}, exact) == 0


@pytest.mark.parametrize("set_to_none", [True, False])
def test_steps_add_up_in_grad_as_without_a_pipe(set_to_none):
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    pipe = GPipe(net, K, M)
    for _ in range(2):  # the second time with what zero_grad has left
        pipe.zero_grad(set_to_none)
        for _ in range(3):
            before, alone = bench.grads(pipe), GPipe(copy.deepcopy(net), K, M)
            alone.zero_grad()
            for model in (pipe, alone):
                model.step(x, y, bench.mse)
            expected = {
                name: own if before[name] is None else before[name] + own for name, own in bench.grads(alone).items()
            }
            bench.assert_same(bench.grads(pipe), expected, tolerance=0)


def test_a_weight_may_ask_for_a_grad_in_fp32():
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    exact = added(torch.float32, net, x, y)
    for weight in net.parameters():
        weight.grad_dtype = torch.float32
    pipe = GPipe(net, K, M)
    for _ in range(3):
        pipe.step(x, y, bench.mse)
    bench.assert_same(bench.grads(pipe), {name: 3 * gradient for name, gradient in exact.items()}, tolerance=1e-6)
    assert {gradient.dtype for gradient in bench.grads(pipe).values()} == {torch.float32}


@pytest.mark.parametrize("accumulate_in_fp32", [True, False])
def test_clipping_and_an_optimizer_take_it_as_it_is(accumulate_in_fp32):
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    plain = copy.deepcopy(net)
    pipe = GPipe(net, K, M, schedule="naive", accumulate_in_fp32=accumulate_in_fp32)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in (pipe, plain)]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        kind = torch.float32 if accumulate_in_fp32 else torch.bfloat16
        for name, gradient in added(kind, plain, x, y).items():
            plain.get_parameter(name).grad = gradient.bfloat16()
        pipe.step(x, y, bench.mse)
        norms = [nn.utils.clip_grad_norm_(model.parameters(), 0.01) for model in (pipe, plain)]
        assert float(norms[0]) == float(norms[1]) > 0.01
        for optimizer in optimizers:
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(pipe.parameters(), plain.parameters(), strict=True))


# Gradients of other kinds


@pytest.mark.parametrize("schedule", ["1f1b", "zero_bubble"])
def test_a_weight_of_two_stages(schedule):
    """What both have added up is added in fp32, too."""
    apart, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    apart[6].weight.data.copy_(apart[0].weight)
    exact = added(torch.float32, apart, x, y)
    exact["0.weight"] += exact.pop("6.weight")
    tied = copy.deepcopy(apart)
    tied[6].weight = tied[0].weight
    pipe = GPipe(tied, K, M, schedule=schedule, measure_memory=True)
    pipe.step(x, y, bench.mse)
    assert share_off(bench.grads(pipe), exact) == 0
    assert pipe.gradient_memory == (160, 160), "each stage has a sum of its own"


class Both(nn.Module):
    """An embedding that is also a head, so that its gradients are sparse and dense."""

    def __init__(self, sparse_first):
        super().__init__()
        self.table, self.sparse_first = nn.Embedding(8, 4, sparse=True), sparse_first

    def forward(self, x):
        looked_up, times = self.table(x), self.table.weight.sum(0)
        return looked_up * times if self.sparse_first else times * looked_up


@pytest.mark.parametrize("both", [True, False, None])
def test_sparse_gradients(both):
    torch.manual_seed(0)
    first = nn.Embedding(8, 4, sparse=True) if both is None else Both(both)
    net = nn.Sequential(first, nn.Tanh(), nn.Linear(4, 4)).to(torch.bfloat16)
    x, y = torch.arange(N) % 3, batch(torch.bfloat16)[1]
    exact = added(torch.float32, net, x, y)
    pipe = GPipe(copy.deepcopy(net), K, M, measure_memory=True)
    pipe.step(x, y, bench.mse)
    found = bench.grads(pipe)
    assert {name for name, gradient in found.items() if gradient.is_sparse} == {
        name for name, gradient in exact.items() if gradient.is_sparse
    }
    dense = {name: gradient.to_dense() for name, gradient in found.items()}
    assert share_off(dense, {name: gradient.to_dense() for name, gradient in exact.items()}) == 0
    assert pipe.gradient_memory[1] == 4 * 20


@pytest.mark.skipif(torch.__version__ < "2.12", reason="compiling in a thread crashes in PyTorch 2.11")
# PyTorch warns itself, and then hides it, where a graph begins with what another one has returned.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_compiled_layers():
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    exact = added(torch.float32, net, x, y)
    layers = nn.Sequential(*(torch.compile(copy.deepcopy(layer), backend="eager") for layer in net))
    pipe = GPipe(layers, K, M)
    pipe.step(x, y, bench.mse)
    found = {name.replace("_orig_mod.", ""): gradient for name, gradient in bench.grads(pipe).items()}
    assert share_off(found, exact) == 0


# What it costs


@bench.every_way
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("accumulate_in_fp32", [True, False])
def test_the_bytes_are_counted(way, dtype, accumulate_in_fp32):
    net, (x, y) = net_of(dtype), batch(dtype)
    net[0].weight.requires_grad_(False)
    pipe = GPipe(net, K, M, measure_memory=True, accumulate_in_fp32=accumulate_in_fp32)
    assert not hasattr(pipe, "gradient_memory")
    bench.train(pipe, x, y, bench.mse, way)
    each = 4 if accumulate_in_fp32 else dtype.itemsize
    assert pipe.gradient_memory == (24 * each, 40 * each), "of two layers a stage, 20 numbers each, 16 of them frozen"
    pipe.eval()(x)
    assert pipe.gradient_memory == (24 * each, 40 * each)


def test_on_a_device_with_several_stages():
    net, (x, y) = net_of(torch.bfloat16), batch(torch.bfloat16)
    pipe = GPipe(net, 4, M, schedule=bench.ge.interleaved(2, M, 2), measure_memory=True)
    pipe.step(x, y, bench.mse)
    assert pipe.gradient_memory == (160, 160)
