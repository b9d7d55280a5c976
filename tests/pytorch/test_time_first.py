"""Layers that take time first: right where the net transposes, refused where a pipe would cut time."""

import copy
import warnings

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import bench

STEPS, SAMPLES, WIDTH = 12, 6, 8
KINDS = {
    "encoder": (lambda **how: nn.TransformerEncoderLayer(WIDTH, 2, 16, 0.0, **how), "MultiheadAttention '0.self_attn'"),
    "lstm": (lambda **how: bench.First(nn.LSTM(WIDTH, WIDTH, **how)), "LSTM '0.layer'"),
    "gru": (lambda **how: bench.First(nn.GRU(WIDTH, WIDTH, **how)), "GRU '0.layer'"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


class Own(nn.Module):
    """A layer that calls another one in a way of its own."""

    def __init__(self, layer, call):
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x):
        return self.call(self.layer, x)


def transposed():
    return bench.Apply(lambda x: x.transpose(0, 1))


def net(kind, *, around=False, **how):
    torch.manual_seed(0)
    layers = [KINDS[kind][0](**how) for _ in range(3)]
    return nn.Sequential(*([transposed(), *layers, transposed()] if around else layers))


def data(*shape):
    made = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=made), torch.randn(*shape, generator=made)


def is_as_plain(layers, x, y):
    plain = copy.deepcopy(layers)
    bench.mse(plain(x), y).backward()
    GPipe(layers, 2, 4, schedule="1f1b").step(x, y, bench.mse)
    bench.assert_same(bench.grads(layers), bench.grads(plain))


@every_kind
@pytest.mark.parametrize("call", ["step", "transparent", "no_grad"])
def test_time_that_would_be_cut_is_refused_and_nothing_is_left_behind(kind, call):
    layers, (x, y) = net(kind), data(STEPS, SAMPLES, WIDTH)
    pipe = GPipe(layers, 2, 4)

    def run():
        if call == "no_grad":
            with torch.no_grad():
                pipe.eval()(x)
        else:
            bench.train(pipe, x, y, bench.mse, call)

    got = r"takes time first \(batch_first=False\) and got shape \(3, 6, 8\) in a micro-batch of 3"
    do = "; give it batch_first=True, and x and y with the samples first"
    with pytest.raises(ValueError, match=f"the {KINDS[kind][1]} {got}.*{do}"):
        run()
    assert all(weight.grad is None for weight in layers.parameters())
    assert not any(module._forward_pre_hooks for module in layers.modules())


@every_kind
def test_what_it_says_is_right(kind):
    """Also for layers that are there: the weights are the same."""
    layers, (x, y) = net(kind), data(STEPS, SAMPLES, WIDTH)
    plain = copy.deepcopy(layers)
    bench.mse(plain(x), y).backward()
    for module in layers.modules():
        if hasattr(module, "batch_first"):
            module.batch_first = True
    GPipe(layers, 2, 4).step(x.transpose(0, 1), y.transpose(0, 1), bench.mse)
    bench.assert_same(bench.grads(layers), bench.grads(plain))


@every_kind
def test_a_net_that_transposes_is_right(kind):
    is_as_plain(net(kind, around=True), *data(SAMPLES, STEPS, WIDTH))


@every_kind
def test_as_many_steps_as_samples_are_warned_of_since_they_cannot_be_told_apart(kind):
    with pytest.warns(UserWarning, match=r"got shape \(3, 3, 8\) .*; where the first 3 is time, that is right, and"):
        is_as_plain(net(kind, around=True), *data(STEPS, 3, WIDTH))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        is_as_plain(net(kind, batch_first=True), *data(STEPS, 3, WIDTH))


@pytest.mark.parametrize("first", [False, True])
def test_samples_that_would_be_taken_as_one_sequence_are_refused(first):
    layers, (x, y) = net("lstm", batch_first=first), data(STEPS, WIDTH)
    got = r"got shape \(3, 8\) in a micro-batch of 3 samples, and takes that as one sequence, so the pipeline has cut"
    with pytest.raises(ValueError, match=rf"{got} time .* such as \(3, 1, 8\) .* or \(1, 3, 8\) for"):
        GPipe(layers, 2, 4).step(x, y, bench.mse)


RIGHT = {
    "rows of an image, with all columns as samples": (
        (3, 5, WIDTH),
        lambda lstm, x: lstm(x.transpose(0, 1).flatten(1, 2))[0].unflatten(1, (len(x), -1)).transpose(0, 1),
    ),
    "one sample after another": ((3, WIDTH), lambda lstm, x: torch.stack([lstm(one)[0] for one in x])),
    "one sample after another, as a batch of one": (
        (3, WIDTH),
        lambda lstm, x: torch.stack([lstm(one[:, None])[0][:, 0] for one in x]),
    ),
}


@pytest.mark.parametrize("samples", [12, 10])
@pytest.mark.parametrize("way", RIGHT)
def test_a_right_layer_with_as_many_steps_as_samples_is_warned_of_and_not_refused(way, samples):
    """The steps are 3, and so are the samples of a micro-batch; of 10, some have 2."""
    shape, call = RIGHT[way]
    torch.manual_seed(0)
    layers = nn.Sequential(*(Own(nn.LSTM(WIDTH, WIDTH), call) for _ in range(2)))
    with pytest.warns(UserWarning, match=r"where the first 3 is time, that is right, and otherwise give it "):
        is_as_plain(layers, *data(samples, *shape))
