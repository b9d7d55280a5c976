"""Models that are more than a chain of matrices: attention, tuples, tied weights, odd types and shapes."""

import copy

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import bench

pytestmark = pytest.mark.slow

every_variant = pytest.mark.parametrize("options", bench.some_variants(2, 3))


class On(nn.Module):
    """A function of all tensors of a tuple, as a layer."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.inner = function, nn.ModuleList(modules)

    def forward(self, x):
        return self.function(*self.inner, *(x if isinstance(x, tuple) else (x,)))


@bench.every_way
@every_variant
def test_transformer_layers(options, way):
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True) for _ in range(4)]
    x = torch.randn(7, 5, 4, generator=torch.Generator().manual_seed(2))
    bench.compare(nn.Sequential(nn.Linear(4, 4), *layers), x, torch.zeros_like(x), way=way, **options)


@bench.every_way
@every_variant
def test_tuples_with_masks_that_pass_through(options, way):
    """(values, attention mask, integer positions): only the first needs a gradient."""
    torch.manual_seed(0)

    def attend(module, x, mask, place):
        bias = torch.zeros_like(mask).masked_fill(mask > 0, -1e9)
        return module(x, x, x, key_padding_mask=bias, need_weights=False)[0] + place.unsqueeze(-1), mask, place

    layers = [On(attend, nn.MultiheadAttention(4, 2, batch_first=True)) for _ in range(4)]
    net = nn.Sequential(*layers, On(lambda x, mask, place: x))
    N = 7
    x = torch.randn(N, 5, 4), (torch.arange(5).expand(N, 5) > 3).double(), torch.arange(5).repeat(N, 1)
    bench.compare(net, x, torch.zeros(N, 5, 4), way=way, **options)


@bench.every_way
@every_variant
def test_two_tensors_that_both_learn_and_two_outputs(options, way):
    torch.manual_seed(0)

    def cross(a, b, x, y):
        return torch.tanh(a(x) + y), b(y) * x

    net = nn.Sequential(*(On(cross, nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(4)))
    x, y = bench.data(7), bench.data(7, seed=5)
    bench.compare(net, x, y, lambda out, want: bench.mse(out[0], want[0]) + bench.mse(out[1], want[1]), way, **options)


@bench.every_way
@every_variant
def test_the_same_tensor_twice_at_a_boundary(options, way):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), On(lambda x: (x, x)), On(lambda a, b: (a * b, b)), On(lambda a, b: a + b))
    bench.compare(net, *bench.data(7), way=way, **options)


@bench.every_way
@every_variant
def test_weights_tied_inside_a_stage(options, way):
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    first = nn.Sequential(shared, nn.Tanh(), shared)
    other = nn.Linear(4, 4)
    other.weight = nn.Parameter(torch.randn(4, 4))
    twin = nn.Linear(4, 4)
    twin.weight = other.weight
    net = nn.Sequential(first, nn.Sequential(other, nn.Tanh(), twin), nn.Linear(4, 4), nn.Tanh())
    bench.compare(net, *bench.data(7), way=way, **options)


@bench.every_way
@every_variant
def test_weights_tied_over_stages(options, way):
    """The first and the last layer have one weight, as an embedding and the head of a language model."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 4))
    net[2].weight = net[5].weight = net[0].weight
    bench.compare(net, *bench.data(7), way=way, **options)


@bench.every_way
@every_variant
def test_one_layer_in_two_stages(options, way):
    torch.manual_seed(0)
    shared = nn.Linear(4, 4)
    bench.compare(nn.Sequential(shared, nn.Tanh(), nn.Linear(4, 4), shared), *bench.data(7), way=way, **options)


@bench.every_way
def test_hooks_on_a_weight_of_two_stages_see_the_sum_once(way):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    plain, seen = copy.deepcopy(net), {"plain": [], "pipe": []}
    for kind, model in (("plain", plain), ("pipe", net)):
        model[0].weight.register_hook(lambda grad, kind=kind: seen[kind].append(grad))
    x, y = bench.data(7)
    bench.mse(plain(x), y).backward()
    bench.train(GPipe(net, 3, 3), x, y, bench.mse, way)
    torch.testing.assert_close(seen["pipe"], seen["plain"])


def test_sums_over_stages_do_not_depend_on_which_stage_was_first():
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(4, 4), nn.Tanh())]
    for layer in layers[2::2]:
        layer.weight = layers[0].weight
    pipe, gradients = GPipe(nn.Sequential(*layers), 4, 8, schedule="zero_bubble"), set()
    x, y = bench.data(64)
    for _ in range(20):
        pipe.zero_grad()
        pipe.step(x, y, bench.mse)
        gradients.add(layers[0].weight.grad.numpy().tobytes())
    assert len(gradients) == 1


@bench.every_way
def test_embedding_with_sparse_gradients_over_two_steps(way):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(9, 4, sparse=True), nn.Linear(4, 4))
    plain, pipe = copy.deepcopy(net), GPipe(net, 2, 3)
    tokens, y = torch.arange(7), torch.zeros(7, 4)
    for _ in range(2):
        bench.mse(plain(tokens), y).backward()
        bench.train(pipe, tokens, y, bench.mse, way)
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.to_dense(), theirs.grad.to_dense())


@bench.every_way
@pytest.mark.parametrize("mode", bench.MODES)
def test_a_complex_tensor_at_a_boundary_carries_its_gradient(mode, way):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), On(torch.fft.fft), On(lambda x: torch.fft.ifft(x).real), nn.Linear(4, 4))
    bench.compare(net, *bench.data(7), way=way, checkpoint=mode)


def test_an_output_with_more_rows_than_the_input():
    """As a language model that returns (samples * tokens, vocabulary) does."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (3, 2)), nn.Linear(2, 5), nn.Flatten(0, 1))
    bench.compare(net, torch.randn(7, 4), torch.randn(21, 5), way="transparent")


@bench.every_way
def test_an_output_that_nobody_uses_gives_no_gradient(way):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), On(lambda a, b, x: (a(x), b(x)), nn.Linear(4, 4), nn.Linear(4, 4)))
    bench.compare(net, *bench.data(7), loss_fn=lambda out, y: bench.mse(out[0], y), way=way)


@bench.every_way
def test_an_input_that_only_some_micro_batches_use(way):
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return x * self.weight if x[0, 0] > 0 else self.weight.expand_as(x) * 1

    x, y = bench.data(6)
    x[:, 0] = torch.tensor([5.0, 5, -5, -5, 5, 5])
    x.requires_grad_()
    bench.train(GPipe(nn.Sequential(Sometimes(), nn.Linear(4, 4)), 2, 3), x, y, bench.mse, way)
    assert x.grad is not None, "the gradient of two of three micro-batches was lost"
    assert [bool(row.any()) for row in x.grad] == [True, True, False, False, True, True]


@bench.every_way
@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
def test_weights_frozen_and_unfrozen_after_wrapping(schedule, mode, way):
    for begins in (True, False):
        net = bench.mlp()
        net[0].requires_grad_(begins)
        net[2].requires_grad_(begins)
        pipe = GPipe(net, 2, 4, schedule=schedule, checkpoint=mode)
        net[0].requires_grad_(not begins)
        net[2].requires_grad_(not begins)
        plain = copy.deepcopy(net)
        x, y = bench.data(7)
        bench.mse(plain(x), y).backward()
        bench.train(pipe, x, y, bench.mse, way)
        bench.assert_same(bench.grads(net), bench.grads(plain))


@bench.every_way
@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
def test_weights_exchanged_by_load_state_dict(schedule, way):
    pipe = GPipe(bench.mlp(), 2, 4, schedule=schedule)
    plain = bench.mlp(seed=8)
    pipe.load_state_dict({key: value.clone() for key, value in plain.state_dict().items()}, assign=True)
    x, y = bench.data(7)
    bench.mse(plain(x), y).backward()
    bench.train(pipe, x, y, bench.mse, way)
    bench.assert_same(bench.grads(pipe), bench.grads(plain))
