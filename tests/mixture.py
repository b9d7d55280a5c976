"""A mixture of experts, as plain as it can be: the layer that engines are tested with.

Each token goes to its `top` experts, however many others choose the same ones, so every expert gets another number of
tokens in each micro-batch, and perhaps none. The router computes in the type of its weights, which may be wider than
that of the rest. The balancing loss is that of Switch Transformers (arXiv 2101.03961, equation 4) for one micro-batch:
experts times the sum over experts of the share of tokens times the mean probability, 1 if all are equal.
"""

import copy

import torch
import torch.distributed as dist
from torch import nn

from gpipe_edu.split import split_batch
from tests.injected import Inject

SHARE = 0.1
"""Of the balancing losses in the loss."""


class Mixture(nn.Module):
    """From x, of shape (..., width), to x plus the outputs of its tokens' experts, and the balancing loss."""

    def __init__(self, width, experts=4, top=2):
        super().__init__()
        self.top = top
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleDict(
            {
                str(e): nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
                for e in range(experts)
            }
        )

    def mix(self, x):
        tokens = x.flatten(0, -2)
        probabilities = self.router(tokens.to(self.router.weight.dtype)).softmax(1)
        weights, chosen = probabilities.topk(self.top, dim=1)
        weights = weights / weights.sum(1, keepdim=True)
        counts = chosen.flatten().bincount(minlength=self.router.out_features)
        by_expert = chosen.flatten().argsort(stable=True)  # of each place, expert after expert
        made = self.through_experts(tokens[by_expert // self.top], counts)
        weighted = made * weights.flatten()[by_expert, None].to(made.dtype)
        mixed = torch.zeros_like(tokens).index_add(0, by_expert // self.top, weighted)
        balance = len(counts) * (counts / counts.sum() * probabilities.mean(0)).sum()
        return x + mixed.view_as(x), balance

    def through_experts(self, tokens, counts):
        """tokens: in the order of their experts; counts: how many each expert has."""
        parts = zip(self.experts.values(), tokens.split(counts.tolist()), strict=True)
        return torch.cat([expert(part) for expert, part in parts])

    def forward(self, x):
        return self.mix(x)[0]


class Carrying(Mixture):
    """The balancing losses so far go from layer to layer as a second tensor, one number for each sample."""

    def forward(self, both):
        x, balances = both
        mixed, balance = self.mix(x)
        return mixed, balances + balance


class Injecting(Mixture):
    """The balancing loss gets its gradient in the backward. samples: those of the mini-batch."""

    samples = 0

    def forward(self, x):
        mixed, balance = self.mix(x)
        return Inject.apply(mixed, len(x) / self.samples * SHARE * balance)


def carried_loss(output, target):
    """A mean over samples, and a share of the balancing losses."""
    x, balances = output
    return nn.functional.mse_loss(x, target) + SHARE * balances.mean()


def blocks(kind, number, width=6):
    """`number` mixtures of a `kind`, float64, with the same weights whatever the kind."""
    torch.manual_seed(0)
    return nn.Sequential(*(kind(width) for _ in range(number))).double()


def samples(N, length=5, width=6):
    """Inputs and targets: N samples of `length` tokens."""
    source = torch.Generator().manual_seed(1)
    return tuple(torch.randn(N, length, width, dtype=torch.float64, generator=source) for _ in range(2))


def in_16_bits(number, N, M):
    """So many blocks in bf16 with routers in fp32, N samples, and the reference for M micro-batches: each weight's
    gradients, added up in fp32."""
    net, (x, y) = blocks(Mixture, number).bfloat16(), [one.bfloat16() for one in samples(N)]
    for layer in net:
        layer.router.float()
    single, sums = copy.deepcopy(net), {}
    for piece, target in zip(split_batch(x, M), split_batch(y, M), strict=True):
        single.zero_grad()
        (nn.functional.mse_loss(single(piece), target) * len(piece) / N).backward()
        for name, weight in single.named_parameters():
            sums[name] = sums.get(name, 0) + weight.grad.float()
    return net, x, y, sums


def on_one_device(net, x, y, M, of=None):
    """The loss, with `net` of Carrying fed one micro-batch after the other, since a balancing loss is of a micro-batch;
    gradients are in `.grad`. of: the samples of the mini-batch, if these are a replica's."""
    total = 0.0
    for piece, target in zip(split_batch(x, M), split_batch(y, M), strict=True):
        loss = carried_loss(net((piece, piece.new_zeros(len(piece)))), target) * len(piece) / (of or len(x))
        loss.backward()
        total += float(loss.detach())
    return total


class AllToAll(torch.autograd.Function):
    """Rows of x go to the ranks of `group`, to[r] of them to rank r, and come[r] come from there; gradients go back."""

    @staticmethod
    def forward(ctx, x, to, come, group):
        ctx.back = come, to, group
        arrived = x.new_empty(sum(come), *x.shape[1:])
        dist.all_to_all_single(arrived, x.contiguous(), come, to, group=group)
        return arrived

    @staticmethod
    def backward(ctx, gradient):
        return AllToAll.apply(gradient, *ctx.back), None, None, None


class Unchanged(nn.Module):
    """Another layer than nn.Identity that does the same."""

    def forward(self, both):
        return both


class SpreadMixture(Carrying):
    """A mixture of which each rank of `group` holds an equal part of the experts, under their numbers among all."""

    def __init__(self, whole, group):
        nn.Module.__init__(self)
        self.top, self.router, self.group = whole.top, whole.router, group
        each = len(whole.experts) // dist.get_world_size(group)
        first = dist.get_rank(group) * each
        self.experts = nn.ModuleDict({str(e): whole.experts[str(e)] for e in range(first, first + each)})

    def forward(self, both):
        if both[0].is_meta:  # only the shapes are asked for, and nobody else may be asked at the same time
            return both[0].clone(), both[1].clone()
        return super().forward(both)

    def through_experts(self, tokens, counts):
        theirs = torch.empty_like(counts)  # from each rank, for each expert of this one
        dist.all_to_all_single(theirs, counts, group=self.group)
        ranks = dist.get_world_size(self.group)
        to, come = (one.view(ranks, -1).sum(1).tolist() for one in (counts, theirs))
        pieces = AllToAll.apply(tokens, to, come, self.group).split(theirs.tolist())
        each = len(self.experts)
        made = [
            expert(torch.cat(pieces[e::each])).split([len(piece) for piece in pieces[e::each]])
            for e, expert in enumerate(self.experts.values())
        ]
        back = torch.cat([made[e][rank] for rank in range(ranks) for e in range(each)])
        return AllToAll.apply(back, come, to, self.group)
