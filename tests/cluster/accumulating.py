"""What the processes of test_accumulation.py do."""

import copy
from functools import partial

import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from tests.rounding import added_in, share_off

from .jobs import LOSS, network, of_replicas

M, N = 32, 64


def batch(dtype):
    torch.manual_seed(1)
    return torch.randn(N, 5).to(dtype), torch.randint(0, 3, (N,))


def off(pipeline, net, x, y):
    """The type of this rank's gradients, and which share of them is further from the sum in fp32 than by rounding."""
    found = {name: weight.grad for name, weight in pipeline.named_parameters()}
    (dtype,) = {gradient.dtype for gradient in found.values()}
    return dtype, share_off(found, added_in(torch.float32, net, x, y, LOSS, M))


def in_one_pipeline(dtype, schedule, **options):
    net, (x, y) = network().to(dtype), batch(dtype)
    pipeline = Pipeline(copy.deepcopy(net), schedule, LOSS, x, **options)
    pipeline.step(x, y)
    return off(pipeline, net, x, y)


def in_replicas(dtype):
    """Two of one stage, each with half of the micro-batches."""
    net, (x, y) = network().to(dtype), batch(dtype)
    pipeline, mine = of_replicas(ge.gpipe(1, M // 2), copy.deepcopy(net), LOSS, x)
    half = slice(0, N // 2) if mine == 0 else slice(N // 2, N)
    pipeline.step(x[half], y[half])
    return *off(pipeline, net, x, y), [weight.grad.float() for weight in pipeline.parameters()]


def in_hooks():
    """The types and shares of what a hook on each weight is given, which is called once a step."""
    net, (x, y), seen = network().to(torch.bfloat16), batch(torch.bfloat16), {}
    pipeline = Pipeline(copy.deepcopy(net), ge.zero_bubble(2, M), LOSS, x)
    for name, weight in pipeline.named_parameters():
        weight.register_hook(partial(seen.__setitem__, name))
    pipeline.step(x, y)
    pipeline.zero_grad()
    (dtype,) = {gradient.dtype for gradient in seen.values()}
    return dtype, share_off(seen, added_in(torch.float32, net, x, y, LOSS, M))


def in_tied_stages(dtype):
    """One weight on both ranks, beside two equal ones on one device."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 5, bias=False), nn.Tanh(), nn.Linear(5, 5, bias=False)).to(dtype)
    net[2].weight.data.copy_(net[0].weight)
    (x, y), tied = batch(dtype), copy.deepcopy(net)
    tied[2].weight = tied[0].weight
    pipeline = Pipeline(tied, ge.one_f_one_b(2, M), LOSS, x)
    pipeline.step(x, y)
    ((name, weight),) = pipeline.named_parameters()
    exact = sum(added_in(torch.float32, net, x, y, LOSS, M).values())
    return weight.grad.dtype, share_off({name: weight.grad}, {name: exact}), weight.grad.float()
