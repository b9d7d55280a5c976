"""Mixtures of experts in the stages of a pipe, and micro-batches of unequal numbers of tokens, as on one device."""

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe
from gpipe_edu.split import split_batch
from tests import mixture, packed

from . import bench

pytestmark = pytest.mark.slow

M, N = 3, 7  # ragged

EVERY_SCHEDULE = [
    *bench.variants(2, M),
    {"partitions": 4, "micro_batches": M, "schedule": ge.combined_one_f_one_b(2, M, 2)},
]


def expected(number):
    """The loss and the gradients of `number` mixtures on one device."""
    net = mixture.blocks(mixture.Carrying, number)
    return mixture.on_one_device(net, *mixture.samples(N), M), bench.grads(net)


@pytest.mark.sweep
@pytest.mark.parametrize("options", EVERY_SCHEDULE)
def test_a_balancing_loss_that_goes_along_as_an_output(options):
    net, (x, y) = mixture.blocks(mixture.Carrying, options["partitions"]), mixture.samples(N)
    loss = GPipe(net, **options).step((x, x.new_zeros(N)), y, mixture.carried_loss)
    theirs, gradients = expected(options["partitions"])
    assert float(loss) == pytest.approx(theirs, rel=1e-10)
    bench.assert_same(bench.grads(net), gradients)


@pytest.mark.sweep
@bench.every_way
@pytest.mark.parametrize("options", EVERY_SCHEDULE)
def test_a_balancing_loss_that_is_injected(options, way):
    """It has the gradients of the one that goes along, and is not in the loss."""
    net, (x, y) = mixture.blocks(mixture.Injecting, options["partitions"]), mixture.samples(N)
    for layer in net:
        layer.samples = N
    loss = bench.train(GPipe(net, **options), x, y, bench.mse, way)
    plain = mixture.blocks(mixture.Mixture, options["partitions"])
    torch.testing.assert_close(loss, bench.mse(plain(x), y).detach(), rtol=1e-10, atol=1e-10)
    bench.assert_same(bench.grads(net), expected(options["partitions"])[1])


def test_a_balancing_loss_is_that_of_a_micro_batch():
    """Its product of two means over the mini-batch would be another number, with other gradients."""
    found = []
    for cut in (1, M):
        net = mixture.blocks(mixture.Carrying, 2)
        found.append((mixture.on_one_device(net, *mixture.samples(N), cut), net[0].router.weight.grad))
    (whole, of_whole), (pieces, of_pieces) = found
    assert abs(whole - pieces) > 1e-3
    assert float((of_whole - of_pieces).abs().max()) > 1e-3


def test_experts_get_other_numbers_of_tokens_in_each_micro_batch():
    """Of the data of these tests."""
    net, (x, _) = mixture.blocks(mixture.Mixture, 1), mixture.samples(N)
    counts = []
    for expert in net[0].experts.values():
        expert.register_forward_hook(lambda module, inputs, output: counts.append(len(output)))
    for piece in split_batch(x, M):
        net(piece)
    assert len(set(counts)) > M


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero_bubble"])
def test_a_router_in_32_bits_of_a_net_in_16(schedule):
    """It chooses the same experts; gradients are those of the micro-batches, added up in fp32."""
    net, x, y, sums = mixture.in_16_bits(3, N, M)
    GPipe(net, 3, M, schedule=schedule).step(x, y, bench.mse)
    for name, weight in net.named_parameters():
        assert weight.grad.dtype == (torch.float32 if "router" in name else torch.bfloat16)
        torch.testing.assert_close(weight.grad.float(), sums[name], rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("loss", ["mean", "sum"])
@pytest.mark.parametrize("options", bench.some_variants(2, M))
def test_packed_documents_are_as_each_alone(options, loss):
    """By cross entropy, which ignores what has no target, and by a sum that is divided by the number of targets."""
    net, plain = packed.network(), packed.network()
    tokens, numbers, targets = packed.packed()
    counts = [int((piece != packed.NO_TARGET).sum()) for piece in split_batch(targets, M)]
    assert len(set(counts)) == M, "micro-batches of unequal numbers of tokens"
    theirs = packed.one_by_one(plain)
    if loss == "sum":
        loss_fn = packed.SummedOverTokens()
        loss_fn.total = sum(counts)
    else:
        loss_fn = nn.CrossEntropyLoss()
    ours = GPipe(net, **options).step((tokens, numbers), targets, loss_fn, reduction=loss)
    assert float(ours) == pytest.approx(theirs, rel=1e-10)
    bench.assert_same(bench.grads(net), bench.grads(plain))
