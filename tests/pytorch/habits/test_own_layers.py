"""Layers that people write: with a backward of their own, with something to count or to hold."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from tests.pytorch.habits.test_layers import Residual
from tests.pytorch.habits.ways import CALLS, TRAINS, Plain, as_plain, batch, compared, do, in_pieces, seeded, trained

pytestmark = pytest.mark.slow


@as_plain
def test_layer_that_asks_whether_its_input_requires_a_gradient(way):
    seen = set()
    net = seeded(lambda: nn.Linear(6, 4), do(lambda x: seen.add(x.requires_grad) or x), lambda: nn.Linear(4, 3))
    trained(way, net, batch(6), balance=[1, 2])
    return seen


@pytest.mark.parametrize("reentrant", [False, True])
@as_plain
def test_layers_that_checkpoint_themselves(way, reentrant):
    class Checkpointed(Residual):
        def forward(self, x):
            return checkpoint(super().forward, x, use_reentrant=reentrant)

    return trained(way, seeded(lambda: Checkpointed(6), lambda: Checkpointed(6)), batch(6))


def with_products_stored(function, x):
    aten = torch.ops.aten
    stored = partial(create_selective_checkpoint_contexts, [aten.mm.default, aten.addmm.default, aten.bmm.default])
    return checkpoint(function, x, use_reentrant=False, context_fn=stored)


class Selective(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())

    def forward(self, x):
        return x + with_products_stored(self.layers, x)


def selective_with_weights(way):
    return trained(way, seeded(lambda: Selective(6), lambda: Selective(6)), batch(6))


# Under zero bubble it is refused: test_failing.py, test_what_pytorch_says_is_explained.
test_layers_that_checkpoint_selectively = compared(selective_with_weights, [*CALLS, TRAINS[1]], Plain())


@as_plain
def test_layers_that_checkpoint_selectively_what_has_no_weights(way):
    def scores(x):
        return torch.bmm(x[:, :, None], x[:, None, :]).softmax(-1).sum(-1)

    selective = do(lambda x: x + with_products_stored(scores, x))
    return trained(way, seeded(lambda: nn.Linear(6, 6), selective, selective, lambda: nn.Linear(6, 6)), batch(6))


class Scaled(torch.autograd.Function):
    """Takes what is no tensor, saves what is neither input nor output, counts nothing that has no gradient."""

    @staticmethod
    def forward(ctx, x, weight, factor, words=None, other=None):
        ctx.save_for_backward(x, weight, x.exp())
        ctx.factor, ctx.words = factor, words
        signs = x.sign()
        ctx.mark_non_differentiable(signs)
        return x * weight * factor, signs

    @staticmethod
    def backward(ctx, gradient, _):
        x, weight, _ = ctx.saved_tensors
        at_x = gradient * weight * ctx.factor if ctx.needs_input_grad[0] else None
        at_weight = (gradient * x * ctx.factor).sum(0) if ctx.needs_input_grad[1] else None
        return at_x, at_weight, None, None, None


class Once(torch.autograd.Function):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(output)

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return None if gradient is None else gradient * ctx.saved_tensors[0]


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class WithFunction(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.weight, self.kind = nn.Parameter(torch.linspace(1, 2, 6)), kind

    def forward(self, x):
        if self.kind == "scaled":
            scaled, signs = Scaled.apply(x, self.weight, math.pi, "words", {"no": "tensor"})
            return scaled + signs
        x = x * self.weight
        return {"once": Once, "dirty": Dirty, "reversed": Reversed}[self.kind].apply(x)


@pytest.mark.parametrize("kind", ["scaled", "once", "dirty", "reversed"])
@as_plain
def test_functions_with_a_backward_of_their_own(way, kind):
    return trained(way, seeded(lambda: WithFunction(kind), lambda: WithFunction(kind)), batch(6))


class Counter(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.tensor(0.0))

    def forward(self, x):
        self.calls += 1
        return x * self.calls.clone()


class Replacing(Counter):
    """Counts by replacing its buffer."""

    def forward(self, x):
        self.calls = self.calls + 1
        return x * self.calls


@pytest.mark.parametrize("counter", [Counter, Replacing])
@in_pieces
def test_layers_that_count_their_calls_in_a_buffer(way, counter):
    net = seeded(lambda: nn.Linear(6, 4), counter, lambda: nn.Linear(4, 2))
    return [trained(way, net, batch(6)) for _ in range(2)]


class Holding(nn.Module):
    """Scales by a tensor with a gradient that is no parameter."""

    def __init__(self, make):
        super().__init__()
        make(self, torch.linspace(1, 2, 6, dtype=torch.float64).requires_grad_(True))

    def forward(self, x):
        return x * self.scale


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda layer, scale: setattr(layer, "scale", scale),
        lambda layer, scale: layer.register_buffer("scale", scale),
    ],
    ids=["attribute", "buffer"],
)
@as_plain
def test_gradients_of_what_is_no_parameter(way, make, frozen):
    net = nn.Sequential(Holding(make), nn.Linear(6, 4, dtype=torch.float64), nn.Tanh())
    nn.init.constant_(net[1].weight, 0.1)
    nn.init.constant_(net[1].bias, 0.1)
    way.learn(way.wrap(net).requires_grad_(not frozen), batch(6), batch(4))
    return net[0].scale.grad, net[1].weight.grad


@as_plain
def test_output_made_of_weights_alone(way):
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(1, 6))

        def forward(self, x):
            return self.table.expand(len(x), -1)

    return trained(way, seeded(Table, lambda: nn.Linear(6, 3)), batch(6))


class CodeBook(nn.Module):
    """Moves its codes to what comes by, without gradients: vector quantization with moving averages."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(4, 3))

    def forward(self, x):
        with torch.no_grad():
            nearest = torch.cdist(x, self.codes).argmin(1)
            for code in nearest.unique():
                self.codes[code].lerp_(x[nearest == code].mean(0), 0.1)
        quantized = self.codes[nearest]
        return x + (quantized - x).detach()


@in_pieces
def test_code_books(way):
    net = seeded(lambda: nn.Linear(6, 3), CodeBook, lambda: nn.Linear(3, 2))
    return [trained(way, net, batch(6)) for _ in range(2)]
