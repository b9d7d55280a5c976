"""What the processes of test_replicas.py do: two replicas of two stages, on four ranks."""

import copy

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import saving
from gpipe_edu.split import split_batch

from .jobs import LOSS, apart, data, network, of_replicas

PARTS = (slice(0, 7), slice(7, 13))
"""The samples of each replica."""
M = 3


class Centred(nn.Module):
    """Takes a running centre of what it sees away, so that what it gives depends on its buffer in training, too."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("centre", torch.zeros(width).double())

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.centre.lerp_(x.mean(dim=0), 0.3)
        return x - self.centre


def with_buffers():
    """A running centre in both stages, running statistics in the first."""
    first, *others, last = network(Centred(6))
    return nn.Sequential(first, *others[:2], nn.BatchNorm1d(6).double(), *others[2:], last, Centred(3))


def pipeline_of(net, schedule=None):
    return of_replicas(schedule or ge.one_f_one_b(2, M), net, LOSS, data()[0])


def in_plain_pytorch(steps):
    """Losses of two replicas on one device, and the net of the first one: as `DistributedDataParallel` does, each
    forward of the mini-batch begins with the buffers of replica 0."""
    (x, y), nets, losses = data(), [with_buffers(), with_buffers()], []
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]
    for _ in range(steps):
        total = 0.0
        for theirs, ours in zip(nets[0].buffers(), nets[1].buffers(), strict=True):
            ours.copy_(theirs)
        for net, optimizer, part in zip(nets, optimizers, PARTS, strict=True):
            optimizer.zero_grad()
            for piece, target in zip(split_batch(x[part], M), split_batch(y[part], M), strict=True):
                loss = LOSS(net(piece), target) * len(piece) / len(x)
                loss.backward()
                total += float(loss)
        losses.append(total)
        for one, other in zip(*(net.parameters() for net in nets), strict=True):
            one.grad += other.grad
            other.grad.copy_(one.grad)
        for optimizer in optimizers:
            optimizer.step()
    return losses, nets[0]


def trained(folder, steps):
    """Losses of steps that go on from `folder`, where the last one is saved, and how far weights, buffers and the
    prediction of this replica are from plain PyTorch's behind it."""
    x, y = data()
    pipeline, replica = pipeline_of(with_buffers())
    optimizer, losses = torch.optim.SGD(pipeline.parameters(), lr=0.1), {}
    for step in range(saving.load(folder, pipeline, optimizer), steps):
        pipeline.zero_grad()
        share = pipeline.step(x[PARTS[replica]], y[PARTS[replica]])
        optimizer.step()
        total = torch.zeros(1, dtype=torch.float64) if share is None else share.reshape(1).clone()
        dist.all_reduce(total)
        losses[step] = float(total)
    saving.save(folder, pipeline, optimizer, steps)
    expected, single = in_plain_pytorch(steps)
    outputs = pipeline.train(False).predict(x)
    off = [float((ours - dict(single.state_dict())[name]).abs().max()) for name, ours in pipeline.named_buffers()]
    return {
        "losses": max(abs(loss - expected[step]) for step, loss in losses.items()),
        "steps": sorted(losses),
        "buffers": max(off),
        "outputs": 0.0 if outputs is None else float((outputs - single.eval()(x)).abs().max()),
    }


def called_unlike():
    """What calls say to ranks of which replica 1 does something else, and gradients of a step behind them."""
    (x, y), single, said = data(), network(), {}
    pipeline, replica = pipeline_of(network())
    mine = PARTS[replica]
    narrow = x[mine, :4]
    calls = {
        "of=26": lambda: pipeline.step(x[mine], y[mine], of=26),
        "reduce=False": lambda: pipeline.step(x[mine], y[mine], reduce=False),
        "a call of predict()": lambda: pipeline.predict(x[mine]),
        "x has 6 samples and y 5": lambda: pipeline.step(x[mine], y[8:13]),
        "stage 0 can't be run with samples of shape (4,)": lambda: pipeline.step(narrow, y[mine]),
    }
    for words, call in calls.items():
        try:
            call() if replica == 1 else pipeline.step(x[mine], y[mine])
        except (TypeError, ValueError) as error:
            said[words] = str(error)
    LOSS(single(x), y).backward()
    pipeline.step(x[mine], y[mine])
    return said, apart(pipeline, single)


def hooked_on_one():
    """A hook on a weight of replica 1 alone, which wants whole gradients: how far those are from one device's after a
    step that was not to add up, and one that was."""
    (x, y), single = data(), network()
    net, seen = copy.deepcopy(single), []
    pipeline, replica = pipeline_of(net)
    if replica == 1:
        for weight in pipeline.parameters():
            weight.register_hook(lambda grad: seen.append(grad.clone()))
    for reduce in (False, True):
        LOSS(single(x), y).backward()
        pipeline.step(x[PARTS[replica]], y[PARTS[replica]], reduce=reduce)
    return len(seen), apart(pipeline, single)
