"""A backward in two halves equals one in one piece, and does not walk the chain twice."""

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.split_backward import input_gradient

from . import bench


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Functional(nn.Module):
    def __init__(self, function, *shapes):
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(shape, dtype=torch.float64) for shape in shapes])
        self.function = function

    def forward(self, x):
        return self.function(x, *self.weights)


class ChannelsLast(nn.Module):
    """PyTorch crashes in a backward of GroupNorm behind this that asks for its weights' gradients only."""

    def forward(self, x):
        return x.expand(-1, -1, -1, 2).contiguous(memory_format=torch.channels_last)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(linear(), nn.Tanh())

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=True)


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum(0)


def linear():
    return nn.Linear(4, 4)


MODELS = {
    "chain": lambda: nn.Sequential(linear(), nn.Tanh(), linear(), nn.ReLU()),
    "residual": lambda: nn.Sequential(Residual(nn.Sequential(linear(), nn.Tanh(), linear())), linear()),
    "norm": lambda: nn.Sequential(linear(), nn.LayerNorm(4), nn.GELU()),
    "transformer": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)), nn.TransformerEncoderLayer(2, 1, 4, dropout=0.0, batch_first=True), nn.Flatten()
    ),
    "channels-last group norm": lambda: nn.Sequential(
        linear(), nn.Unflatten(1, (2, 2, 1)), ChannelsLast(), nn.GroupNorm(1, 2), nn.Conv2d(2, 2, (1, 2)), nn.Flatten()
    ),
    "reentrant checkpoint": lambda: nn.Sequential(linear(), Checkpointed(), nn.Tanh()),
    "own function": lambda: nn.Sequential(linear(), Functional(_Own.apply, 4)),
    "one weight twice in a chain": lambda: Functional(lambda x, w: torch.tanh(x @ w) @ w, (4, 4)),
    "one weight twice in a product": lambda: Functional(lambda x, w: x * w * w, 4),
    "a weight made of weights": lambda: Functional(lambda x, g, v: x @ (v * g / v.norm()), 1, (4, 4)),
    "a weight that gates another": lambda: Functional(lambda x, a, b: (x * a) * torch.sigmoid(b * a), 4, 4),
    "a branch without the input": lambda: Functional(lambda x, a, b: x + torch.tanh(a * b), 4, 4),
    "output without the input": lambda: Functional(lambda x, a: (a * a).expand_as(x) * 1, 4),
    "no weights": lambda: nn.Tanh(),
    "identity": lambda: nn.Identity(),
    "views": lambda: nn.Sequential(linear(), nn.Unflatten(1, (2, 2)), nn.Flatten(), linear()),
    "weight unused": lambda: Functional(lambda x, a, b: x * a, 4, 4),
    "recurrent": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)), bench.First(nn.GRU(2, 2, batch_first=True)), nn.Flatten()
    ),
    "detached": lambda: Functional(lambda x, a, b: x * a + (x * b).detach() * b, 4, 4),
}


IN_ONE_PIECE = ("channels-last group norm", "reentrant checkpoint")


@pytest.mark.parametrize("wants_input", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_both_halves_give_the_whole(name, wants_input):
    torch.manual_seed(0)
    model = MODELS[name]()
    x, g = torch.randn(5, 4), torch.randn(5, 4)
    whole = x.clone().requires_grad_(wants_input)
    out = model(whole)
    if not out.requires_grad:
        pytest.skip("nothing to do backward")
    out.backward(g)
    expected = bench.grads(model)
    model.zero_grad()
    leaf = x.clone().requires_grad_(wants_input)
    finish = input_gradient([model(leaf)], [g], [leaf])
    if wants_input:
        bench.assert_same({"x": leaf.grad}, {"x": whole.grad})
        computed = [p.grad is not None for p in model.parameters()]
        assert not any(computed) or name in IN_ONE_PIECE, "I computes the weights' gradients"
    finish()
    bench.assert_same(bench.grads(model), expected)
    if wants_input:
        bench.assert_same({"x": leaf.grad}, {"x": whole.grad})


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # a checkpoint in a forward without graph
@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "identity"])
def test_in_a_pipeline(name, mode):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), MODELS[name](), nn.Linear(4, 4))
    bench.compare(net, *bench.data(7), partitions=3, micro_batches=4, schedule="zero_bubble", checkpoint=mode)


def test_the_chain_of_activations_is_walked_once():
    """Every layer's own backward runs once: I walks the chain, and W must not."""
    walked = []

    class Walk(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            walked.append(1)
            return g

    class Layer(nn.Module):
        def forward(self, x):
            return Walk.apply(x)

    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), Layer(), nn.Linear(4, 4), Layer(), nn.Linear(4, 4))
    GPipe(net, 2, 3, balance=[1, 5], schedule="zero_bubble", checkpoint="never").step(*bench.data(6), bench.mse)
    assert len(walked) == 2 * 3


def test_weights_frozen_in_part():
    for frozen in range(4):
        net = bench.mlp()
        net[2 * frozen].weight.requires_grad_(False)
        bench.compare(net, *bench.data(7), schedule="zero_bubble")


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b", "zero_bubble"])
def test_a_loss_function_with_weights_of_its_own(schedule):
    """As a learned temperature, or a centre per class; a W that only knows the stage's weights forgets them."""
    scale, theirs = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(2.0))
    net, (x, y) = bench.mlp(), bench.data(7)
    bench.mse(net(x) * theirs, y).backward()
    GPipe(net, 2, 4, schedule=schedule).step(x, y, lambda out, y: bench.mse(out * scale, y))
    bench.assert_same({"scale": scale.grad}, {"scale": theirs.grad})
