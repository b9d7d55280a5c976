"""Layers of every kind as stages: PyTorch's own, blocks made of them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.pytorch.bench import First
from tests.pytorch.habits.ways import as_plain, as_plain_calls, batch, do, held, in_pieces, seeded, trained

pytestmark = pytest.mark.slow

BY_SAMPLE = {
    "conv1d": ((4, 9), [lambda: nn.Conv1d(4, 3, 3, padding="same"), nn.ReLU]),
    "conv2d": ((3, 6, 6), [lambda: nn.Conv2d(3, 4, 3), nn.GELU, lambda: nn.Conv2d(4, 2, 2, stride=2)]),
    "conv3d": ((2, 4, 4, 4), [lambda: nn.Conv3d(2, 3, 2), nn.Mish]),
    "conv_circular": ((2, 6, 6), [lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular"), nn.ELU]),
    "depthwise": ((4, 5, 5), [lambda: nn.Conv2d(4, 4, 3, groups=4, dilation=2), nn.SiLU]),
    "transposed": ((2, 4, 4), [lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), nn.Softplus]),
    "group_norm": ((4, 5), [lambda: nn.GroupNorm(2, 4), nn.SELU]),
    "layer_norm": ((4, 5), [lambda: nn.LayerNorm([4, 5]), nn.CELU]),
    "rms_norm": ((5,), [lambda: nn.RMSNorm(5), nn.LogSigmoid]),
    "instance_norm": ((3, 4, 4), [lambda: nn.InstanceNorm2d(3, affine=True), nn.Hardswish]),
    "local_response": ((4, 5, 5), [lambda: nn.LocalResponseNorm(2), nn.Sigmoid]),
    "prelu": ((4, 3), [lambda: nn.PReLU(4), lambda: nn.Linear(3, 2)]),
    "inplace_relu": ((6,), [lambda: nn.Linear(6, 5), lambda: nn.ReLU(inplace=True), lambda: nn.Linear(5, 2)]),
    "inplace_hardtanh": ((6,), [lambda: nn.Linear(6, 5), lambda: nn.Hardtanh(inplace=True), nn.Tanh]),
    "threshold": ((6,), [lambda: nn.Linear(6, 5), lambda: nn.Threshold(0.1, 20.0, inplace=True), nn.Tanh]),
    "softmax": ((6,), [lambda: nn.Softmax(1), lambda: nn.LogSoftmax(-1)]),
    "softmin": ((6, 2), [lambda: nn.Softmin(1), nn.Softsign]),
    "glu": ((6,), [lambda: nn.Linear(6, 8), nn.GLU]),
    "max_pool": ((2, 6, 6), [lambda: nn.MaxPool2d(2), nn.Flatten]),
    "lp_pool": ((2, 6, 6), [lambda: nn.LPPool2d(2, 2), lambda: nn.AvgPool2d(2, ceil_mode=True)]),
    "adaptive": ((2, 5, 5), [lambda: nn.AdaptiveAvgPool2d(2), lambda: nn.AdaptiveMaxPool2d(1)]),
    "upsample": ((2, 3, 3), [lambda: nn.Upsample(scale_factor=2, mode="bilinear"), lambda: nn.ReflectionPad2d(1)]),
    "pixel_shuffle": ((4, 3, 3), [lambda: nn.PixelShuffle(2), lambda: nn.PixelUnshuffle(3)]),
    "channel_shuffle": ((4, 3, 3), [lambda: nn.ChannelShuffle(2), lambda: nn.ZeroPad2d(1)]),
    "unfold": ((2, 4, 4), [lambda: nn.Unfold(2), lambda: nn.Fold(4, 2)]),
    "flatten_unflatten": ((2, 3), [nn.Flatten, lambda: nn.Unflatten(1, (3, 2))]),
    "dropout_of_nothing": ((6,), [lambda: nn.Dropout(0.0), lambda: nn.Linear(6, 2)]),
    "dropout_of_all": ((6,), [lambda: nn.Linear(6, 6), lambda: nn.Dropout(1.0)]),
    "identity": ((6,), [nn.Identity, nn.Identity]),
    "identity_in_front": ((6,), [nn.Identity, lambda: nn.Linear(6, 2)]),
    "attention": ((5, 8), [lambda: SelfAttention(8, 2), lambda: nn.LayerNorm(8)]),
    "causal_attention": ((5, 8), [lambda: SelfAttention(8, 2, causal=True), lambda: nn.LayerNorm(8)]),
    "encoder": (
        (5, 8),
        [lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), lambda: nn.Linear(8, 2)],
    ),
    "encoder_norm_first": (
        (5, 8),
        [
            lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True, norm_first=True, activation="gelu"),
            lambda: nn.Linear(8, 2),
        ],
    ),
    "bidirectional": (
        (5, 4),
        [lambda: First(nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True, proj_size=3)), lambda: nn.Linear(6, 2)],
    ),
    "gru": ((5, 4), [lambda: First(nn.GRU(4, 6, batch_first=True)), do(lambda x: x[:, -1])]),
    "rnn_cells": ((5, 4), [lambda: Cells(4, 6), lambda: nn.Linear(6, 2)]),
    "residual": ((6,), [lambda: Residual(6), lambda: Residual(6)]),
    "inplace_after_residual": ((6,), [lambda: ResidualThenInPlace(6), lambda: ResidualThenInPlace(6)]),
    "squeeze_excite": ((4, 5, 5), [lambda: SqueezeExcite(4), lambda: SqueezeExcite(4)]),
    "mixture_of_experts": ((6,), [lambda: Experts(6, 3), lambda: nn.Linear(6, 2)]),
    "deep_supervision": ((6,), [lambda: nn.Linear(6, 4), do(lambda x: (x, x * 2)), do(lambda xs: xs[0] * xs[1])]),
    "positional": ((5, 8), [lambda: Positions(5, 8), lambda: nn.Linear(8, 2)]),
    "parameter_list": ((6,), [lambda: Listed(6), lambda: nn.Linear(6, 2)]),
    "nested": ((6,), [lambda: nn.Sequential(nn.Linear(6, 4), nn.Sequential(nn.Tanh())), lambda: nn.Linear(4, 2)]),
    "layer_drop_by_content": ((6,), [lambda: Choosy(6), lambda: Choosy(6)]),
    "fft": ((8,), [do(torch.fft.fft), do(torch.abs)]),
    "linalg": ((3, 3), [do(lambda x: x @ x.mT + 3 * torch.eye(3)), do(torch.linalg.cholesky)]),
    "cumsum_and_sort": ((6,), [do(lambda x: x.cumsum(1)), do(lambda x: x.sort(1).values)]),
    "einsum": ((4, 5), [do(lambda x: torch.einsum("nij,nkj->nik", x, x)), do(torch.tanh)]),
    "scaled_dot_product": ((5, 8), [do(lambda x: F.scaled_dot_product_attention(x, x, x)), lambda: nn.Linear(8, 2)]),
    "topk_gather": ((6,), [do(lambda x: x.gather(1, x.topk(3, dim=1).indices)), lambda: nn.Linear(3, 2)]),
    "view_in_front": ((6,), [do(lambda x: x.view(-1, 2, 3)), do(lambda x: x[:, :, ::2])]),
    "transposed_view": ((4, 6), [do(lambda x: x.transpose(1, 2)), do(lambda x: x.contiguous().flatten(1))]),
    "expanded": ((1, 4), [do(lambda x: x.expand(-1, 3, -1)), do(lambda x: x * 2)]),
    "in_place_on_a_copy": (
        (6,),
        [do(lambda x: x.clone().mul_(2).add_(x)), do(lambda x: (x * 1).index_fill_(1, torch.tensor([0]), 0.0))],
    ),
    "slice_assigned": ((6,), [do(lambda x: doubled_in_front(x)), lambda: nn.Linear(6, 2)]),
    "masked_fill": ((6,), [do(lambda x: x.masked_fill(x > 0, 0.5)), lambda: nn.Linear(6, 2)]),
    "where_and_clamp": ((6,), [do(lambda x: torch.where(x > 0, x, x.exp())), do(lambda x: x.clamp(-1, 1))]),
    "no_columns": ((6,), [do(lambda x: x[:, :0]), do(lambda x: F.pad(x, (0, 2)))]),
    "rows_per_sample": (
        (4, 3),
        [do(lambda x: x.flatten(0, 1)), lambda: nn.Linear(3, 2), do(lambda x: x.view(-1, 4, 2))],
    ),
    "straight_through": ((6,), [do(lambda x: x + (x.round() - x).detach()), lambda: nn.Linear(6, 2)]),
    "stopped_in_the_middle": ((6,), [lambda: nn.Linear(6, 4), do(torch.detach), lambda: nn.Linear(4, 2)]),
    "no_grad_in_the_middle": ((6,), [lambda: NoGrad(6), lambda: nn.Linear(6, 2)]),
    "complex_weights": ((6,), [do(lambda x: x.to(torch.complex128)), lambda: ComplexLinear(6, 3), do(torch.abs)]),
}


class SelfAttention(nn.Module):
    def __init__(self, width, heads, causal=False):
        super().__init__()
        self.attention, self.causal = nn.MultiheadAttention(width, heads, batch_first=True), causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype) if self.causal else None
        return x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class Cells(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.cell = nn.LSTMCell(a, b)

    def forward(self, x):
        state = None
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return state[0]


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + self.linear(x).relu_()


class ResidualThenInPlace(Residual):
    def forward(self, x):
        out = self.linear(x)
        out += x
        return F.relu(out, inplace=True)


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Linear(channels, 2), nn.Linear(2, channels)

    def forward(self, x):
        return x * self.up(self.down(x.mean((2, 3))).relu()).sigmoid()[..., None, None]


class Experts(nn.Module):
    """Each row goes to one expert; an expert that no row goes to has a gradient only from other micro-batches."""

    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        gates = self.gate(x).softmax(1)
        best, chosen = gates.max(1)
        out = torch.zeros_like(x)
        for e in chosen.unique().tolist():
            rows = chosen == e
            out[rows] = self.experts[e](x[rows])
        return out * best[:, None]


class Positions(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, width))
        self.register_buffer("wave", torch.arange(length * width).view(length, width).sin(), persistent=False)

    def forward(self, x):
        return x + self.table + self.wave


class Listed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scales = nn.ParameterList(torch.randn(width) for _ in range(2))
        self.shifts = nn.ParameterDict({"used": torch.randn(width), "unused": torch.randn(width)})

    def forward(self, x):
        return x * self.scales[0] * self.scales[1] + self.shifts["used"]


class Choosy(nn.Module):
    """Which weights take part depends on the rows."""

    def __init__(self, width):
        super().__init__()
        self.low, self.high = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return torch.stack([self.low(row) if row.sum() < 0 else self.high(row) for row in x])


class NoGrad(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.frozen, self.live = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        with torch.no_grad():
            features = self.frozen(x)
        return self.live(features)


class ComplexLinear(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(b, a, dtype=torch.complex128))

    def forward(self, x):
        return x.to(torch.complex128) @ self.weight.mT


def doubled_in_front(x: Tensor) -> Tensor:
    out = x.clone()
    out[:, :3] *= 2
    return out


@pytest.mark.parametrize("kind", BY_SAMPLE)
@as_plain
def test_layers_that_treat_every_sample_alike(way, kind):
    shape, layers = BY_SAMPLE[kind]
    net = seeded(*layers)
    return trained(way, net, batch(*shape))


@pytest.mark.parametrize("kind", ["encoder", "bidirectional", "rms_norm", "conv2d", "attention"])
@as_plain_calls
def test_layers_in_eval_mode_without_a_graph(way, kind):
    shape, layers = BY_SAMPLE[kind]
    with torch.no_grad():
        return way.wrap(seeded(*layers)).eval()(batch(*shape))


BY_BATCH = {
    "batch_norm": [lambda: nn.BatchNorm1d(6)],
    "average_over_all": [lambda: nn.BatchNorm1d(6, momentum=None)],
    "without_statistics": [lambda: nn.BatchNorm1d(6, track_running_stats=False)],
    "without_weights": [lambda: nn.BatchNorm1d(6, affine=False)],
    "lazy_batch_norm": [lambda: initialized(nn.LazyBatchNorm1d(), (3, 6))],
    "instance_norm_with_statistics": [
        do(lambda x: x.unsqueeze(1).repeat(1, 2, 1)),
        lambda: nn.InstanceNorm1d(2, track_running_stats=True),
        do(lambda x: x[:, 0]),
    ],
    "batch_statistics": [do(lambda x: (x - x.mean(0)) / x.var(0, correction=0).add(1).sqrt())],
    "scaled_by_frequency": [
        do(lambda x: (x[:, :2] > 0).long()),
        lambda: nn.Embedding(3, 6, scale_grad_by_freq=True),
        do(lambda x: x[:, 0]),
    ],
}


def initialized(lazy, shape):
    lazy(torch.zeros(*shape))
    return lazy


@pytest.mark.parametrize("kind", BY_BATCH)
@in_pieces
def test_layers_that_look_at_the_whole_batch_see_micro_batches(way, kind):
    net = seeded(lambda: nn.Linear(6, 6), *BY_BATCH[kind], lambda: nn.Linear(6, 2))
    return trained(way, net, batch(6))


@in_pieces
def test_batch_norm_in_the_first_and_in_the_last_layer(way):
    net = seeded(lambda: nn.BatchNorm1d(6), lambda: nn.Linear(6, 4), lambda: nn.BatchNorm1d(4))
    return trained(way, net, batch(6)), trained(way, net, batch(6, seed=5))


@as_plain
def test_batch_norm_kept_in_eval_mode_while_the_rest_trains(way):
    net = seeded(lambda: nn.Linear(6, 4), lambda: nn.BatchNorm1d(4), lambda: nn.Linear(4, 2))
    net.train()
    net[1].eval()
    return trained(way, net, batch(6)), net[1].num_batches_tracked


@as_plain
def test_batch_norm_of_the_mini_batch_by_deferred_statistics(way):
    net = seeded(lambda: nn.Linear(6, 4), lambda: nn.BatchNorm1d(4), do(torch.detach), lambda: nn.Linear(4, 2))
    model = way.wrap(net, deferred_batch_norm=True)
    way.learn(model, batch(6), batch(2))
    return net[1].running_mean, net[1].running_var, net[1].num_batches_tracked


EMBEDDINGS = {
    "plain": {},
    "padding": {"padding_idx": 0},
}


@pytest.mark.parametrize("options", EMBEDDINGS.values(), ids=EMBEDDINGS)
@as_plain
def test_embeddings_of_whole_numbers(way, options):
    net = seeded(lambda: nn.Embedding(5, 4, **options), lambda: nn.Linear(4, 2), nn.Tanh)
    return trained(way, net, torch.arange(21).view(7, 3) % 5)


@as_plain
def test_embedding_that_is_frozen(way):
    net = seeded(lambda: nn.Embedding(5, 4), lambda: nn.Linear(4, 3))
    net[0].weight.requires_grad_(False)
    return trained(way, net, torch.arange(7) % 5)


@as_plain
def test_sparse_gradients(way):
    net = seeded(lambda: nn.Embedding(5, 4, sparse=True), lambda: nn.Linear(4, 2))
    model, x = way.wrap(net), torch.arange(7) % 3
    optimizer = torch.optim.SparseAdam([net[0].weight], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        way.learn(model, x, batch(2))
        optimizer.step()
    return net[0].weight.grad.to_dense(), net[0].weight.detach(), net[0].weight.grad.is_sparse


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@as_plain
def test_bags_of_words(way, mode):
    net = seeded(lambda: nn.EmbeddingBag(5, 4, mode=mode), lambda: nn.Linear(4, 2))
    return trained(way, net, torch.arange(21).view(7, 3) % 5)


@as_plain
def test_images_as_bytes(way):
    net = seeded(do(lambda x: x.double() / 255), nn.Flatten, lambda: nn.Linear(12, 2))
    return trained(way, net, torch.arange(84, dtype=torch.uint8).view(7, 3, 2, 2))


@pytest.mark.parametrize("cast", ["half", "bfloat16", "float"])
@as_plain_calls
def test_other_floats(way, cast):
    net = seeded(lambda: nn.Linear(6, 4), nn.ReLU, lambda: nn.Linear(4, 2))
    model = getattr(way.wrap(net), cast)()
    out = model(getattr(batch(6), cast)())
    # Sums over a batch are rounded in another order.
    return out.dtype, out.float().round(decimals=1), {weight.dtype for weight in net.parameters()}


@as_plain
def test_channels_last(way):
    net = seeded(lambda: nn.Conv2d(3, 4, 3), nn.ReLU, lambda: nn.Conv2d(4, 2, 2), nn.Flatten)
    net.to(memory_format=torch.channels_last)
    return trained(way, net, batch(3, 6, 6).contiguous(memory_format=torch.channels_last))


@as_plain_calls
def test_memory_format_of_an_output(way):
    net = seeded(lambda: nn.Conv2d(3, 4, 3), nn.ReLU).to(memory_format=torch.channels_last)
    out = way.wrap(net)(batch(3, 6, 6).contiguous(memory_format=torch.channels_last))
    return out.is_contiguous(memory_format=torch.channels_last)


@as_plain
def test_lazy_layers_before_their_first_batch(way):
    torch.manual_seed(0)
    net = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(2)).double()
    model = way.wrap(net)
    torch.manual_seed(0)
    with torch.no_grad():
        net(batch(6))
    return way.learn(model, batch(6), batch(2)), held(net)


@in_pieces
def test_observers_of_quantization(way):
    from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver, QuantStub

    make = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
    torch.manual_seed(0)
    net = nn.Sequential(QuantStub(), nn.Linear(6, 4), make(), nn.Linear(4, 2), make()).float()
    x = batch(6).float()
    return way.learn(way.wrap(net), x, batch(2).float()), net[2].scale, net[4].scale
