"""What the processes of test_mixtures.py do."""

from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from gpipe_edu.split import split_batch
from tests import mixture, packed

from .jobs import apart, of_replicas

M, N = 3, 7  # ragged


def balanced(schedules):
    """For each schedule, how far the loss and gradients of this rank are from one device's: with balancing losses that
    go along as an output, and injected, where the loss does not show them."""
    (x, y), found = mixture.samples(N), []
    for schedule in schedules:
        single = mixture.blocks(mixture.Carrying, schedule.stages)
        expected = mixture.on_one_device(single, x, y, M)
        both = x, x.new_zeros(N)
        along = Pipeline(mixture.blocks(mixture.Carrying, schedule.stages), schedule, mixture.carried_loss, both)
        loss = along.sum_over_ranks(along.step(both, y))
        net = mixture.blocks(mixture.Injecting, schedule.stages)
        for layer in net:
            layer.samples = N
        injected = Pipeline(net, schedule, nn.functional.mse_loss, x)
        injected.step(x, y)
        found.append((abs(loss - expected), apart(along, single), apart(injected, single)))
    return found


def router_in_32_bits():
    """How far gradients are from those of the micro-batches, added up in fp32, beside the largest of each weight, and
    their types; the router computes in fp32, all else in bf16."""
    net, x, y, sums = mixture.in_16_bits(2, N, M)
    pipeline = Pipeline(net, ge.zero_bubble(2, M), nn.functional.mse_loss, x)
    pipeline.step(x, y)
    mine = dict(pipeline.named_parameters())
    off = max(float((weight.grad - sums[name]).abs().max() / sums[name].abs().max()) for name, weight in mine.items())
    return off, {name: weight.grad.dtype for name, weight in mine.items()}


def packed_documents(loss, copies):
    """How far the loss and gradients of packed documents are from those of each alone, on `copies` replicas of as many
    stages as there are ranks for, and the numbers of targets of this rank's micro-batches."""
    net, single = packed.network(), packed.network()
    tokens, numbers, targets = packed.packed()
    expected = packed.one_by_one(single)
    loss_fn = nn.CrossEntropyLoss() if loss == "mean" else packed.SummedOverTokens()
    loss_fn.total = int((targets != packed.NO_TARGET).sum())
    schedule = ge.one_f_one_b(2 // copies, 2)
    pipeline, replica = of_replicas(schedule, net, loss_fn, (tokens, numbers), copies, reduction=loss)
    x, y, z = ((one[:4], one[4:])[replica] if copies > 1 else one for one in (tokens, numbers, targets))
    found = pipeline.sum_over_ranks(pipeline.step((x, y), z))
    counts = [int((piece != packed.NO_TARGET).sum()) for piece in split_batch(z, 2)]
    return abs(found - expected), apart(pipeline, single), counts
