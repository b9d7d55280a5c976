"""What `GPipe` does with a net, a loss or a hook, a pipeline of processes does, too, or refuses in the same words."""

import random
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional

import gpipe_edu as ge
from gpipe_edu.pytorch import Stash

from . import jobs
from .on_ranks import run

pytestmark = pytest.mark.slow

SCHEDULES = {
    "1f1b": ge.one_f_one_b(2, 4),
    "late recompute": ge.gpipe(2, 4, recompute="late"),
    "zero bubble": ge.zero_bubble(2, 4),
    "interleaved": ge.interleaved(2, 4, 2),
}
CLASSES = torch.tensor([0, 1, -100, -100, -100, -100, 2, 1, 0, -100, 2, 2, 0])
"""The second of four micro-batches has nothing that counts."""

NUMBERS = torch.linspace(-1, 1, 39).double().reshape(13, 3)
WEIGHTS = torch.tensor([1.0, 2.0, 5.0]).double()


# Right


LOSSES = {
    "summed": (nn.MSELoss(reduction="sum"), NUMBERS, "sum"),
    "summed by a function": (partial(functional.mse_loss, reduction="sum"), NUMBERS, "sum"),
    "averaged": (nn.MSELoss(), NUMBERS, "mean"),
    "some ignored": (nn.CrossEntropyLoss(), CLASSES, "mean"),
    "another ignored": (nn.CrossEntropyLoss(ignore_index=1), CLASSES.clamp(min=0), "mean"),
    "class weights": (nn.CrossEntropyLoss(weight=WEIGHTS), CLASSES.clamp(min=0), "mean"),
    "class weights, some ignored": (partial(functional.cross_entropy, weight=WEIGHTS), CLASSES, "mean"),
    "summed, some ignored": (nn.CrossEntropyLoss(reduction="sum"), CLASSES, "sum"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_counts_what_it_counts_on_one_device(group, name):
    loss, targets, reduction = LOSSES[name]
    schedule = SCHEDULES["1f1b"]
    make = partial(jobs.with_loss, loss)
    assert max(run(group, 2, jobs.trained, make, schedule, y=targets, reduction=reduction)) < 1e-10


@pytest.mark.sweep
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_counts_what_it_counts_also_over_replicas(group, name):
    loss, targets, reduction = LOSSES[name]
    assert max(run(group, 2, jobs.replicas_that_differ, loss, targets, reduction=reduction)) < 1e-10


def test_a_replica_whose_targets_are_all_ignored_counts_nothing(group):
    targets = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, -100, -100, -100, -100])
    assert max(run(group, 4, jobs.replicas_that_differ, nn.CrossEntropyLoss(), targets)) < 1e-10


@pytest.mark.parametrize("name", SCHEDULES)
def test_hooks_on_weights_see_the_gradient_of_the_mini_batch(group, name):
    assert max(run(group, 2, jobs.trained, jobs.with_loss, SCHEDULES[name], jobs.hooked)) < 1e-10


@pytest.mark.parametrize("name", SCHEDULES)
def test_hooks_on_weights_are_called_once_a_mini_batch(group, name):
    once_a_step = {"grad": 2, "accumulated": 2, "node": 2}
    assert run(group, 2, jobs.calls_of_hooks, SCHEDULES[name]) == [once_a_step, once_a_step]


@pytest.mark.parametrize("reductions", [(True, True), (False, True), (True, False, False, True)])
def test_hooks_on_weights_see_the_gradient_of_all_replicas(group, reductions):
    how = {"prepare": jobs.hooked, "reductions": reductions}
    assert max(run(group, 4, jobs.replicas_that_differ, jobs.LOSS, jobs.data()[1], **how)) < 1e-10


def test_a_weight_that_one_replica_does_not_use(group):
    for told in run(group, 2, jobs.a_weight_that_one_replica_uses):
        assert told["apart"] < 1e-10
        assert told["unused"] is None, "what no replica uses has no gradient, so an optimizer leaves it alone"


def test_a_weight_used_twice_in_one_stage_is_one(group):
    make = partial(jobs.tied, jobs.LOSS)
    assert max(run(group, 2, jobs.trained, make, SCHEDULES["1f1b"], balance=(3, 2))) < 1e-10


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_layer_used_twice_in_one_stage_is_one(group, name):
    make, targets = partial(jobs.used_twice, nn.MSELoss()), NUMBERS.repeat(1, 2)[:, :5]
    assert max(run(group, 2, jobs.trained, make, SCHEDULES[name], y=targets)) < 1e-10


def test_layers_have_the_names_that_the_network_has(group):
    first, last = run(group, 2, jobs.names_of_parameters)
    assert first == ["in.weight", "in.bias"]
    assert last == ["out.weight", "out.bias"]


# Refused


class Doubled(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def plain(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 5), nn.Tanh(), *more, nn.Linear(5, 3)).double()


def one_norm_in_two_stages():
    norm = nn.BatchNorm1d(5).double()
    return nn.Sequential(nn.Linear(5, 5), norm, nn.Linear(5, 3), norm).double(), jobs.LOSS, {}


def net_with_a_hook():
    net = plain()
    net.register_forward_hook(lambda module, inputs, output: 2 * output)
    return net, jobs.LOSS, {}


def one_memory():
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5)).double()
    net[2].weight.data = net[0].weight.data
    return net, jobs.LOSS, {}


def sharded():
    from torch.distributed.fsdp import fully_shard

    net = plain()
    fully_shard(net[0], mesh=init_device_mesh("cpu", (2,)))
    return net, jobs.LOSS, {}


def too_many_layers():
    return plain(), jobs.LOSS, {"balance": (2, 2)}


AS_GPIPE = {
    "one layer with buffers": (
        one_norm_in_two_stages,
        "ValueError: the module 'BatchNorm1d' is used in stage 0 and in",
    ),
    "an own forward": (lambda: (Doubled(*plain()), jobs.LOSS, {}), "a Doubled, has a forward of its own"),
    "a hook on the net": (net_with_a_hook, "a Sequential, has hooks of its own"),
    "FSDP": (sharded, "ValueError: FSDP (fully_shard, FullyShardedDataParallel) has sharded weights"),
    "no Sequential": (lambda: (nn.Linear(5, 3).double(), jobs.LOSS, {}), "TypeError: net is a Linear"),
    "a summed loss": (lambda: (plain(), nn.MSELoss(reduction="sum"), {}), "give the same: reduction='sum'"),
    "a class for a loss": (lambda: (plain(), nn.MSELoss, {}), "TypeError: loss_fn is the class MSELoss"),
}


@pytest.mark.parametrize("name", AS_GPIPE)
def test_what_gpipe_refuses_is_refused_on_every_rank_in_the_same_words(group, name):
    make, words = AS_GPIPE[name]
    for said, by_gpipe in run(group, 2, jobs.refused, make):
        assert words in said
        assert said.replace("Pipeline()", "step()") == by_gpipe


class Named(NamedTuple):
    a: torch.Tensor


class Gives(nn.Module):
    """What `make` makes of its input."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def giving(make):
    """A first stage that ends with such a layer."""
    net = nn.Sequential(nn.Linear(5, 5), Gives(make), nn.Linear(5, 3)).double()
    return lambda: (net, jobs.LOSS, {"balance": (2, 1)})


class Busy(nn.Linear):
    """Sets, counts, keeps, draws and changes its mode in its forward; `after` that, it does what is refused."""

    def __init__(self, after=lambda x: x):
        super().__init__(5, 5)
        self.after, self.calls, self.table, self.seen, self.by_size = after, 0, None, [], {}
        self.register_buffer("last", torch.zeros(5))
        self.inner = nn.Dropout()

    def forward(self, x):
        self.calls += 1
        self.table = torch.ones(5, dtype=x.dtype, device=x.device) if self.table is None else self.table
        self.seen.append(x)
        self.by_size[len(x)] = x
        self.last = x[0].detach()
        self.register_buffer("first", self.last)
        self.inner.train(not self.training)
        torch.rand(3)
        random.random()
        np.random.rand(3)
        return self.after(super().forward(x) * self.table)


def busy(after):
    """One layer twice, in each of two stages, a list of one layer, and a recurrent one."""
    recurrent = Gives(lambda x: x[:, None]), nn.LSTM(5, 5, batch_first=True), Gives(lambda x: x[0][:, 0])
    net = nn.Sequential(Busy(), *[nn.Linear(5, 5)] * 2, *recurrent, Busy(after)).double()
    return lambda: (net, jobs.LOSS, {"balance": (3, 4)})


def with_options(**options):
    return lambda: (plain(), jobs.LOSS, options)


def with_layers(*layers):
    return lambda: (plain(*layers), jobs.LOSS, {})


def changed_in_place():
    net = nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True), nn.Linear(5, 3)).double()
    return net, jobs.LOSS, {"balance": (1, 2)}


ONLY_HERE = {
    "one memory": (one_memory, "'weight' in stage 0 and 'weight' in stage 1 are two parameters with one memory"),
    "a NamedTuple": (giving(Named), "TypeError: the output of stage 0 is a Named, a NamedTuple"),
    "a list": (giving(lambda x: [x]), "TypeError: the output of stage 0 is list"),
    "nothing": (giving(lambda x: None), "TypeError: the output of stage 0 is NoneType"),
    "a number in a tuple": (giving(lambda x: (x, 1)), "TypeError: the output of stage 0 is a tuple of (Tensor, int)"),
    "a number by a name": (giving(lambda x: {"x": x, "n": 1}), "the output of stage 0 is a tuple of (Tensor, int)"),
    "no samples": (giving(lambda x: (x, x.sum())), "stage 0 makes shape () of 2 samples"),
    "other samples": (giving(lambda x: x.T @ x), "stage 0 makes shape (5, 5) of 2 samples"),
    "an input changed in place": (changed_in_place, "stage 1: a layer changes the input of its stage in place"),
    "a shape of numbers": (giving(lambda x: x[x > 0].repeat(7)), "samples; between ranks go tensors whose first dim"),
    "a reduction": (
        lambda: (plain(), jobs.LOSS, {"reduction": [1.0, 2.0]}),
        'reduction is [1.0, 2.0]; it must be "mean" or "sum"',
    ),
    "behind layers that change themselves": (busy(lambda x: [x]), "TypeError: the output of stage 1 is list"),
    "numbers needed there": (busy(lambda x: x[x > 0].repeat(7)), "stage 1 makes shape ("),
    "a skip that is never taken": (with_layers(Stash("a")), 'the skip "a" is stashed but never taken'),
    "a lazy layer": (with_layers(nn.LazyLinear(5)), "the lazy layer 2 has no weights before its first forward"),
    "a layer on meta": (with_layers(nn.Linear(5, 5, device="meta")), "2.weight is on the device meta, where it has no"),
    "a schedule with R": (with_options(schedule=ge.gpipe(2, 4, recompute="early")), "the schedule has R"),
    "too few ranks": (with_options(schedule=ge.gpipe(3, 4)), "has 3 devices, but this pipeline has 2 ranks"),
    "an example in a list": (with_options(example=[1]), "TypeError: the example is a list; give the whole mini-batch"),
    "an example of other samples": (with_options(example=NUMBERS), "stage 0 can't be run with samples of shape (3,)"),
    "a device without numbers": (with_options(device="meta"), "ValueError: device is 'meta', where weights would lose"),
    "a stage without layers": (with_options(balance=(3, 0)), "balance is (3, 0), and each stage needs a layer; take"),
    "a balance": (too_many_layers, "balance is (2, 2), which places 4 layers on 2 stages; net has 3 layers"),
}


@pytest.mark.parametrize("name", ONLY_HERE)
def test_what_only_several_processes_refuse_is_refused_on_every_rank(group, name):
    make, words = ONLY_HERE[name]
    for said, _ in run(group, 2, jobs.refused, make):
        assert words in said


def test_a_step_is_refused_under_no_grad_and_autocast_and_over_no_number_of_samples(group):
    for no_grad, of, of_nothing, *under_autocast in run(group, 2, jobs.steps_refused):
        assert "called under no_grad" in no_grad
        assert "predict(x)" in no_grad
        assert "of=13 is what a mean is over" in of
        assert "of" in of_nothing
        assert "at least 1" in of_nothing
        assert len(under_autocast) == 2, "step and predict"
        assert all("called under torch.autocast" in words and "net.bfloat16()" in words for words in under_autocast)


# Ranks that have built other networks


def other_seed(net):
    torch.manual_seed(7)
    for layer in list(net)[1:]:
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()


def other_shape(net):
    net[9] = nn.Linear(6, 4).double()


def other_buffer(net):
    net[1].running_mean += 1


def frozen(net):
    net[3].weight.requires_grad_(False)


def one_layer_less(net):
    del net[9]


CHANGES = {
    "other seed": (other_seed, "first at 3.weight: the numbers in it are others"),
    "other shape": (
        other_shape,
        "first at 9.weight: there it is float64 of shape (4, 6), here float64 of shape (3, 6)",
    ),
    "other type": (lambda net: net[9].float(), "first at 9.weight: there it is float32 of shape (3, 6), here float64"),
    "other buffer": (other_buffer, "first at 1.running_mean: the numbers in it are others"),
    "frozen": (frozen, "first at 3.weight: there it is frozen, here it trains"),
    "another function": (
        lambda net: net.__setitem__(2, nn.ReLU()),
        "first at (2): Tanh(): there it is (2): ReLU()",
    ),
    "a layer less": (one_layer_less, "first at 9.weight: rank 0 has it, and rank 1 does not"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_ranks_with_other_networks_are_told_which_and_where(group, name):
    change, words = CHANGES[name]
    for said in run(group, 2, jobs.another_net, change):
        assert len(said) == 1
        assert said[0].startswith(f"rank 1 has built another network than rank 0, {words}")
        assert "torch.manual_seed(0)" in said[0]


def test_a_prediction_before_any_step_compares_networks_too(group):
    for said in run(group, 2, jobs.another_net, other_seed, predicts=True):
        assert len(said) == 1
        assert said[0].startswith("rank 1 has built another network than rank 0, first at 3.weight")


def test_all_ranks_of_all_replicas_are_told(group):
    """Rank 3 is the second one of the second pipeline."""
    for said in run(group, 4, jobs.another_net, other_seed, replicas=True):
        assert len(said) == 1
        assert said[0].startswith("rank 3 has built another network than rank ")
        assert "first at 3.weight" in said[0]


@pytest.mark.parametrize(
    ("name", "first", "last", "words"),
    [
        ("balance", (4, 5), (5, 4), "rank 1 has balance (5, 4), and rank 0 has (4, 5): give the same"),
        ("reduction", "mean", "sum", "rank 1 has reduction sum, and rank 0 has mean: give the same"),
    ],
)
def test_ranks_with_other_arguments_are_told(group, name, first, last, words):
    assert run(group, 2, jobs.other_arguments, name, first, last) == [words, words]
