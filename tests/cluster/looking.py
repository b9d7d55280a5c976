"""Layers whose shapes are fixed, and which look at numbers: PyTorch can't run them on its device "meta"."""

import copy
from functools import partial

import numpy as np
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline, build_layers
from tests.pytorch.bench import Apply

from .jobs import apart, squares


@torch.library.custom_op("gpipe_edu_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    """Has no fake."""
    return 2 * x


doubled.register_autograd(lambda ctx, grad: 2 * grad)


class OfNumPy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(np.tanh(x.numpy()))

    @staticmethod
    def backward(ctx, grad):
        return grad


def saved_on_cpu(x):
    with torch.autograd.graph.save_on_cpu():
        return x.sin() * x


def checked(x):
    assert torch.isfinite(x).all(), "not finite"
    return x


def told(x):
    return x if f"{x.sum():.2f}" else -x


def scaled_by_pythons(x):
    return x / max(1.0, *x.abs().flatten().tolist())


def skipped_if_empty(x):
    return x if not x.any() else x.tanh()


def spread(x):
    return x + torch.arange(5)


def by_places(x):
    places = torch.where(x[:, 0] > 0)[0]
    return torch.zeros_like(x).index_add(0, places, x[places].sin())


def put(x):
    found = torch.zeros_like(x)
    found[x > 0] = x[x > 0].sin()
    return found


def by_a_loop(x):
    return x * sum(0.1 for value in x.flatten() if value > 0)


def times_a_table(x):
    return x * torch.tensor([1.0, 2, 3, 4, 5], dtype=x.dtype)


def unique_ones(x):
    values, places = torch.unique(x.detach().round(), return_inverse=True)
    return x + values[places]


KINDS = {
    "an operator without a fake": lambda x: torch.ops.gpipe_edu_tests.doubled(x),
    "NumPy": OfNumPy.apply,
    "NumPy's own function": lambda x: x + torch.from_numpy(np.asarray(x.detach())),
    "an assert": checked,
    "an f-string": told,
    "save_on_cpu": saved_on_cpu,
    "an if": skipped_if_empty,
    "max": scaled_by_pythons,
    "a loop": by_a_loop,
    "int": lambda x: x + int(x.sum()),
    "arange without device": spread,
    "a table without device": times_a_table,
    "where and index_add": by_places,
    "a mask": put,
    "unique": unique_ones,
    "a number": lambda x: x * float(x.detach().sum()),
}
"""Functions of (N, 5)."""


class Looking(nn.Module):
    """A function behind weights and dropout, which draws numbers."""

    def __init__(self, function):
        super().__init__()
        self.linear, self.norm, self.function = nn.Linear(5, 5).double(), nn.BatchNorm1d(5).double(), function
        self.dropout = nn.Dropout()

    def forward(self, x):
        x = self.linear(x)
        self.norm(x)
        self.dropout(x)
        return self.function(x)


class Experts(nn.Module):
    """Two of four experts for each token, as public models write it."""

    def __init__(self, give):
        super().__init__()
        self.router, self.give = nn.Linear(6, 4), give
        self.experts = nn.ModuleList([nn.Linear(6, 6) for _ in range(4)])

    def forward(self, x):
        tokens = x.flatten(0, 1)
        shares, chosen = self.router(tokens).softmax(-1).topk(2)
        return self.give(self, tokens, shares, chosen).view_as(x)

    def by_where(self, tokens, shares, chosen):
        total = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, places = torch.where(chosen == number)
            total.index_add_(0, rows, expert(tokens[rows]) * shares[rows, places, None])
        return total

    def by_nonzero(self, tokens, shares, chosen):
        total = torch.zeros_like(tokens)
        hit = nn.functional.one_hot(chosen, 4).permute(2, 1, 0)
        for number in (hit.sum((1, 2)) > 0).nonzero().flatten():
            places, rows = hit[number].nonzero(as_tuple=True)
            total = total.index_add(0, rows, self.experts[number](tokens[rows]) * shares[rows, places, None])
        return total

    def by_mask(self, tokens, shares, chosen):
        total = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            mask = (chosen == number).any(-1)
            if mask.any():
                share = (shares * (chosen == number)).sum(-1)[mask]
                total[mask] += share[:, None] * expert(tokens[mask])
        return total

    def sorted_by_expert(self, tokens, shares, chosen):
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=4).tolist()
        pieces = tokens.repeat_interleave(2, 0)[order].split(counts)
        found = torch.cat([expert(piece) for expert, piece in zip(self.experts, pieces, strict=True)])
        back = torch.empty_like(found).index_copy(0, order, found)
        return (back.view(-1, 2, 6) * shares[..., None]).sum(1)


def block(function):
    return nn.Sequential(nn.Linear(5, 5).double(), Apply(function))


def trained(builders=False):
    """How far gradients of a step are from one device's where each stage has such layers, and what is predicted."""
    torch.manual_seed(0)
    functions = [KINDS[name] for name in ("NumPy", "an if", "where and index_add", "arange without device", "int")]
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)).double()
    made = [partial(block, function) for function in functions]
    net = build_layers(made)
    single, pipeline = copy.deepcopy(net), Pipeline(made if builders else net, ge.one_f_one_b(2, 3), squares, x)
    for piece in x.split(2):
        (squares(single(piece), piece) / 3).backward()
    pipeline.step(x, x)
    return apart(pipeline, single)


def of_another_shape():
    """What a step says where a layer leaves out columns of negative numbers."""
    net = nn.Sequential(Apply(lambda x: x[:, x.min(0).values > 0] * torch.ones(1, dtype=x.dtype, requires_grad=True)))
    x = torch.ones(6, 5).double()
    pipeline = Pipeline(net, ge.gpipe(1, 3), squares, x)
    x[:, 2] = -1
    try:
        pipeline.step(x, x)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


def experts(give):
    """How far gradients and a prediction are from one device's, where each stage has a mixture of experts."""
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Sequential(Experts(give), nn.Tanh()) for _ in range(2))).double()
    x = torch.randn(5, 3, 6, generator=torch.Generator().manual_seed(1)).double()
    single, pipeline = copy.deepcopy(net), Pipeline(net, ge.gpipe(2, 2, recompute="late"), squares, x)
    squares(single(x), x).backward()
    pipeline.step(x, x)
    found = pipeline.predict(x)
    off = 0.0 if found is None else float((found - single(x)).abs().max())
    return max(off, apart(pipeline, single))
