"""What the processes of the tests do."""

import copy
import gc
import random
from collections import OrderedDict
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parameter import is_lazy

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline
from gpipe_edu.cluster.agreement import digest
from gpipe_edu.cluster.stage import Stage
from gpipe_edu.split import split_batch

LOSS = nn.CrossEntropyLoss()


def unwatched(function, *arguments, **named):
    """PyTorch's messages are no learner's: some releases greet their own rank, which the watch would object to."""
    from gpipe_edu.distributed.rank import this_watch

    this_watch().diary = None
    torch.manual_seed(0)  # what ran in the process before has drawn numbers, on one rank perhaps more than on another
    return function(*arguments, **named)


def data(N=13):
    torch.manual_seed(1)
    return torch.randn(N, 5).double(), torch.randint(0, 3, (N,))


def network(*between):
    torch.manual_seed(0)
    widths = [5, 6, 7, 4, 6, 3]
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:1], *between, *layers[1:-1]).double()


def apart(pipeline, single):
    """The largest difference between gradients of this rank and those of the whole network."""
    expected = dict(single.named_parameters())
    return max(
        (float((w.grad - expected[name].grad).abs().max()) for name, w in pipeline.named_parameters()), default=0.0
    )


def messages_in_memory(schedule):
    """How many tensors of a boundary's size this rank has in memory when each op of the second step ends."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(1, 1009), nn.Linear(1009, 1009), nn.Linear(1009, 1))
    pipeline = Pipeline(layers, schedule, nn.MSELoss(), torch.ones(1, 1))
    M, found = schedule.micro_batches, []

    def count(*_):
        everything = (one for one in gc.get_objects() if issubclass(type(one), torch.Tensor))
        found.append(len({one.untyped_storage().data_ptr() for one in everything if one.shape == (1, 1009)}))

    pipeline.step(torch.ones(M, 1), torch.zeros(M, 1))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("forward_one_chunk", "backward_one_chunk"):
            patch.setattr(Stage, name, then(getattr(Stage, name), count))
        pipeline.step(torch.ones(M, 1), torch.zeros(M, 1))
    return found


def then(function, after):
    def both(*arguments, **named):
        result = function(*arguments, **named)
        after()
        return result

    return both


def differences(schedules):
    (x, y), net, found = data(), network(), []
    for schedule in schedules:
        single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), schedule, LOSS, x)
        for N in (len(x), 3):
            loss = LOSS(single(x[:N]), y[:N])
            loss.backward()
            mine = pipeline.step(x[:N], y[:N])
            assert (mine is not None) == pipeline.last
            assert mine is None or abs(float(mine) - float(loss)) < 1e-12
        found.append(apart(pipeline, single))
    return found


def batchnorm(recompute):
    """13 samples, which are cut unevenly."""
    (x, y), net = data(), network(nn.BatchNorm1d(6).double())
    single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), ge.gpipe(2, 4, recompute), LOSS, x)
    for piece, target in zip(split_batch(x, 4), split_batch(y, 4), strict=True):
        (LOSS(single(piece), target) * len(piece) / len(x)).backward()
    pipeline.step(x, y)
    counts = [int(buffer) for name, buffer in pipeline.named_buffers() if "num_batches" in name]
    expected = dict(single.named_buffers())
    off = [float((buffer - expected[name]).abs().max()) for name, buffer in pipeline.named_buffers()]
    return {"apart": apart(pipeline, single), "counts": counts, "statistics": max(off, default=0.0)}


def squares(output, target):
    return (output - target).abs().square().mean()


def clipped(kind):
    (x, _), net = data(), network().to(kind)
    x = x.to(kind) * (1 + 0.5j if kind.is_complex else 1)
    y = x[:, :3]
    single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), ge.one_f_one_b(2, 4), squares, x)
    squares(single(x), y).backward()
    pipeline.step(x, y)
    expected = nn.utils.clip_grad_norm_(single.parameters(), 0.1)
    return {
        "norm": float(pipeline.clip_grad_norm(0.1)),
        "expected norm": float(expected),
        "apart": apart(pipeline, single),
    }


def recomputed():
    (x, y), net = data(12), network()
    calls = {}
    for layer in net:
        layer.register_forward_hook(lambda module, inputs, output: calls.__setitem__(module, calls.get(module, 0) + 1))
    schedule = ge.Schedule.parse("F0 F1 F2 B2 B1 C0\nF0 F1 F2 C2 B1 C0")
    pipeline = Pipeline(net, schedule, LOSS, x)
    pipeline.predict(x)  # before the first mini-batch layers also run without numbers
    calls.clear()
    pipeline.step(x, y)
    return calls[next(iter(pipeline.layers.values()))]


def smaller(kind):
    (x, y), net = data(12), network().to(kind)
    x = x.to(kind)
    single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), ge.one_f_one_b(2, 4), LOSS, x)
    for piece, target in zip(x.split(3), y.split(3), strict=True):
        (LOSS(single(piece), target) / 4).backward()
    pipeline.step(x, y)
    return {"types": {w.grad.dtype for w in pipeline.parameters()}, "apart": apart(pipeline, single)}


def modes():
    """Whether this rank's layers are for training, before, in between and after."""
    pipeline = Pipeline(network(), ge.interleaved(2, 2, 2), LOSS, data()[0])

    def training():
        return {layer.training for layer in pipeline.layers.values()}

    return {
        "stages": pipeline.stages,
        "at first": training(),
        "evaluating": training() if pipeline.train(False) is pipeline else None,
        "again": training() if pipeline.train() is pipeline else None,
    }


def predicted():
    (x, _), net = data(), network()
    pipeline = Pipeline(copy.deepcopy(net), ge.gpipe(2, 4), LOSS, x)
    outputs = pipeline.predict(x)
    return None if outputs is None else float((outputs - net(x)).abs().max())


def of_replicas(schedule, net, loss, x, copies=2, **options):
    """A pipeline of some replicas, and which one this rank is in."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (copies, schedule.devices), mesh_dim_names=("replica", "stage"))
    groups = {"group": mesh.get_group("stage"), "replicas": mesh.get_group("replica")}
    return Pipeline(net, schedule, loss, x, **groups, **options), mesh.get_local_rank("replica")


def replicas(schedule):
    (x, y), net = data(), network()
    single = copy.deepcopy(net)
    pipeline, mine = of_replicas(schedule, copy.deepcopy(net), LOSS, x)
    part = slice(0, 7) if mine == 0 else slice(7, 13)
    messages, all_reduce = [], dist.all_reduce

    def counted(tensor, *arguments, **named):
        if tensor.numel() > 2:  # how many samples the replicas have is another message
            messages.append(1)
        return all_reduce(tensor, *arguments, **named)

    found = []
    dist.all_reduce = counted
    try:
        for reduce in (False, True, True, False, False, True):
            LOSS(single(x), y).backward()
            pipeline.step(x[part], y[part], of=len(x), reduce=reduce)
            if reduce:
                found.append(apart(pipeline, single))
    finally:
        dist.all_reduce = all_reduce
    return {"apart": found, "messages": len(messages)}


def timeline():
    (x, y), schedule = data(), ge.zero_bubble(2, 4)
    pipeline = Pipeline(network(), schedule, LOSS, x)
    pipeline.step(x, y)
    return pipeline.timeline(), schedule


def frozen(part):
    """Layers 0 to 4 are stage 0, the others stage 1."""
    (x, y), net = data(), network()
    for weight in net[part].parameters():
        weight.requires_grad_(False)
    single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), ge.zero_bubble(2, 4), LOSS, x)
    LOSS(single(x), y).backward()
    pipeline.step(x, y)
    expected = dict(single.named_parameters())
    assert all((w.grad is None) == (expected[name].grad is None) for name, w in pipeline.named_parameters())
    trained = {name: w.grad for name, w in pipeline.named_parameters() if w.requires_grad}
    return max((float((grad - expected[name].grad).abs().max()) for name, grad in trained.items()), default=0.0)


def unfitting():
    """What a step says to each mini-batch that doesn't fit, on this rank."""
    (x, y), said = data(), []
    pipeline = Pipeline(network(), ge.gpipe(2, 4), LOSS, x)
    asks = torch.zeros(len(x), 3).double().requires_grad_()
    for inputs, labels in [
        (x[:, :4], y),
        (x.float(), y),
        (x, y[:5]),
        (x[:0], y[:0]),
        (x, asks),
        ([x], y),
        (x, (y, y[:5])),
        (x, {"y": y}),
    ]:
        try:
            pipeline.step(inputs, labels)
        except (TypeError, ValueError) as error:
            said.append(str(error))
    return said


def other_mini_batches():
    """What calls say to ranks of which the last one is given something else, and gradients of a step behind them."""
    (x, y), said = data(), []
    single = network()
    pipeline = Pipeline(network(), ge.one_f_one_b(3, 4), LOSS, x)
    last = dist.get_rank() == 2
    calls = {
        "12 samples of shape (5,) and type torch.float64": lambda: pipeline.step(x[:12], y[:12]),
        "a call of predict()": lambda: pipeline.predict(x),
        "of=26": lambda: pipeline.step(x, y, of=26),
        "reduce=False": lambda: pipeline.step(x, y, reduce=False),
    }
    for call in calls.values():
        try:
            call() if last else pipeline.step(x, y)
        except ValueError as error:
            said.append(str(error))
    LOSS(single(x), y).backward()
    pipeline.step(x, y)
    return {"said": said, "expected": list(calls), "apart": apart(pipeline, single)}


def refusal(schedule):
    try:
        Pipeline(network(), schedule, LOSS, data()[0])
    except ValueError as error:
        return str(error)
    return ""


def state_of(net, *tensors):
    """All that a refusal must leave as it is: what modules hold, tensors and their numbers, random numbers."""
    modules = [
        (name, id(module), {key: list(value) if type(value) in (dict, list, set) else value for key, value in known})
        for name, module in net.named_modules(remove_duplicate=False)
        for known in [vars(module).items()]
    ]
    everything = [*net.named_parameters(remove_duplicate=False), *net.named_buffers(remove_duplicate=False)]
    told = [
        (name, id(one), str(one.device), one.requires_grad, one.grad is None, one._version, digest(whole))
        for name, one in [*everything, *enumerate(tensors)]
        for whole in [one.to_local() if hasattr(one, "to_local") else one]
        if not is_lazy(one)
    ]
    numbers = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
    return repr((modules, told, numbers))


def refused(make):
    """What the pipeline says to a net, a loss and options, on this rank, which must leave them as they are, and what
    GPipe says to that net."""
    from gpipe_edu.pytorch import GPipe

    (x, y), (net, loss, options), said = data(), make(), []
    known = {"schedule": ge.one_f_one_b(2, 4), "example": x, **options}
    before = state_of(net, x)
    for build in (
        lambda: Pipeline(net, loss_fn=loss, **known),
        lambda: GPipe(net, 2, 4).step(x, y, loss, **options),
    ):
        try:
            build()
            said.append("")
        except (TypeError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
        if len(said) == 1:
            assert state_of(net, x) == before, said
    return said


def nothing(net):
    """Leave it as it is."""


def trained(make, schedule, prepare=nothing, y=None, **options):
    """How far weights are from one device's after two steps. prepare: what is done to a net, its hooks say."""
    net, loss = make()
    (x, labels), single = data(), copy.deepcopy(net)
    y = labels if y is None else y
    prepare(single)
    prepare(net)
    pipeline = Pipeline(net, schedule, loss, x, **options)
    optimizers = [torch.optim.SGD(weights.parameters(), lr=0.1, momentum=0.9) for weights in (single, pipeline)]
    for _ in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        expected = loss(single(x), y)
        expected.backward()
        mine = pipeline.step(x, y)
        nn.utils.clip_grad_norm_(single.parameters(), 0.5)
        pipeline.clip_grad_norm(0.5)
        for optimizer in optimizers:
            optimizer.step()
        assert mine is None or abs(float(mine) - float(expected)) < 1e-10
    return weights_apart(pipeline, single)


def with_loss(loss=LOSS):
    return network(), loss


def tied(loss):
    """Layers 0 and 2 have one weight."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    net[2].weight = net[0].weight
    return net, loss


def used_twice(loss):
    """One layer for the first two, and one table for the four behind, two by two with cuts into two and four stages."""

    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("angles", torch.rand(5))

        def forward(self, x):
            return x * self.angles.cos()

    class Turned(nn.Module):
        def __init__(self, table):
            super().__init__()
            self.linear, self.table = nn.Linear(5, 5), table

        def forward(self, x):
            return self.table(self.linear(x)).tanh()

    torch.manual_seed(0)
    tables = [Table(), Table()]
    blocks = [Turned(table) for table in tables for _ in range(2)]
    return nn.Sequential(*[nn.Linear(5, 5)] * 2, *blocks, *[nn.Linear(5, 5)] * 2).double(), loss


class Scored(nn.Module):
    """A loss with a weight of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 5).double())

    def forward(self, output, target):
        return nn.functional.mse_loss(output * self.scale, target) + self.scale.square().sum()


class OfInput(nn.Module):
    """`function` of a layer and of what comes in."""

    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, x):
        return self.function(self.layer, x)


ENDS = {
    "one layer": lambda: nn.Linear(5, 5),
    "one layer twice": lambda: OfInput(nn.Linear(5, 5), lambda f, x: f(f(x))),
    "an LSTM": lambda: OfInput(nn.LSTM(5, 5), lambda f, x: f(torch.stack([x, 2 * x]))[0].sum(0)),
    "a GRU": lambda: OfInput(nn.GRU(5, 5), lambda f, x: f(torch.stack([x, 2 * x]))[0].sum(0)),
    "a detached input": lambda: OfInput(nn.Linear(5, 5), lambda f, x: f(x.detach())),
    "an input that is detached in part": lambda: OfInput(nn.Linear(5, 5), lambda f, x: x * f(x.detach())),
    "its input": nn.Identity,
    "a part": lambda: OfInput(nn.Linear(5, 9), lambda f, x: f(x)[:, ::2]),
    "no gradient before": lambda: nn.Linear(5, 5),
}
"""Last layers, by what is special in them."""


def ends(name, loss, schedule):
    """How far gradients of two steps are from one device's, those of a weight of the loss, too, where they are."""
    x, y = data()[0], data()[0].roll(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), ENDS[name]()).double()
    net[:-1].requires_grad_(name != "no gradient before")
    single, of_single = copy.deepcopy(net), copy.deepcopy(loss)
    pipeline, off = Pipeline(net, schedule, loss, x), 0.0
    for _ in range(2):
        expected = of_single(single(x), y)
        expected.backward()
        mine = pipeline.step(x, y)
        off = max(off, 0.0 if mine is None else abs(float(mine - expected)))
    weights = dict(single.named_parameters())
    pairs = [(weight, weights[of]) for of, weight in pipeline.named_parameters()]
    pairs += zip(loss.parameters(), of_single.parameters(), strict=True) if pipeline.last else []
    for one, other in pairs:  # zeros where a stage makes nothing of what it receives
        grads = [torch.zeros_like(one) if weight.grad is None else weight.grad for weight in (one, other)]
        off = max(off, float((grads[0] - grads[1]).abs().max()))
    return off


def names_of_parameters():
    layers = {"in": nn.Linear(5, 4), "between": nn.Tanh(), "out": nn.Linear(4, 3)}
    net = nn.Sequential(OrderedDict(layers)).double()
    return [name for name, _ in Pipeline(net, ge.gpipe(2, 2), LOSS, data()[0]).named_parameters()]


def steps_refused():
    (x, y), said = data(), []
    with torch.no_grad():
        try:
            Pipeline(network(), ge.gpipe(2, 4), LOSS, x).step(x, y)
        except RuntimeError as error:
            said.append(str(error))
    try:
        summed = nn.CrossEntropyLoss(reduction="sum")
        Pipeline(network(), ge.gpipe(2, 4), summed, x, reduction="sum").step(x, y, of=13)
    except ValueError as error:
        said.append(str(error))
    pipeline = Pipeline(network(), ge.gpipe(2, 4), LOSS, x)
    try:
        pipeline.step(x, y, of=0)
    except ValueError as error:
        said.append(str(error))
    for call in (lambda: pipeline.step(x, y), lambda: pipeline.predict(x)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            try:
                call()
            except RuntimeError as error:
                said.append(str(error))
    return said


def other_arguments(name, first, last):
    """What the first step says to ranks of which the last one was given another argument."""
    (x, y), given = data(), last if dist.get_rank() == dist.get_world_size() - 1 else first
    pipeline = Pipeline(network(), ge.gpipe(2, 4), squares, x, **{name: given})
    try:
        pipeline.step(x, y)
    except ValueError as error:
        return str(error)
    return ""


def weights_apart(pipeline, single):
    expected = dict(single.named_parameters())
    return max((float((w - expected[name]).abs().max()) for name, w in pipeline.named_parameters()), default=0.0)


def hooked(net, clamp=0.003):
    """A hook on a weight of each stage, whose results differ if it is called for a part of a mini-batch."""
    for layer in (net[0], net[-1]):
        layer.weight.register_hook(lambda grad: grad.clamp(-clamp, clamp))
        layer.bias.register_hook(lambda grad: grad + 0.01)


def calls_of_hooks(schedule):
    """How often each of three kinds of hook is called in two steps, on this rank."""
    (x, y), net, calls = data(), network(), {"grad": 0, "accumulated": 0, "node": 0}

    def count(kind):
        def called(*_):
            calls[kind] += 1

        return called

    pipeline = Pipeline(net, schedule, LOSS, x)
    weight = next(pipeline.parameters())
    weight.register_hook(count("grad"))
    weight.register_post_accumulate_grad_hook(count("accumulated"))
    node = weight.view_as(weight).grad_fn.next_functions[0][0]
    node.register_hook(count("node"))
    for _ in range(2):
        pipeline.step(x, y)
    return calls


def replicas_that_differ(loss, targets, prepare=nothing, reductions=(True, True), **options):
    """Two replicas of one stage, or of two, with 9 and 4 of the 13 samples: how far from one device's, in gradients."""
    (x, _), net = data(), network()
    single = copy.deepcopy(net)
    prepare(single)
    prepare(net)
    schedule = ge.one_f_one_b(dist.get_world_size() // 2, 3)
    pipeline, mine = of_replicas(schedule, net, loss, x, **options)
    part = slice(0, 9) if mine == 0 else slice(9, 13)
    losses = 0.0
    for reduce in reductions:
        expected = loss(single(x), targets)
        expected.backward()
        share = pipeline.step(x[part], targets[part], reduce=reduce)
        if share is not None:
            shares = share.reshape(1).clone()
            dist.all_reduce(shares, group=pipeline.replicas)
            losses = max(losses, abs(float(shares) - float(expected)))
    return max(losses, apart(pipeline, single))


class Sometimes(nn.Module):
    """Uses its weight only for a micro-batch with a sample whose first number is larger than `limit`."""

    def __init__(self, limit):
        super().__init__()
        self.weight, self.limit = nn.Parameter(torch.ones(5).double()), limit

    def forward(self, x):
        return x * self.weight if x.device.type == "meta" or bool((x[:, 0] > self.limit).any()) else x


def a_weight_that_one_replica_uses():
    (x, y), net = data(), nn.Sequential(Sometimes(100), Sometimes(1000), *network())
    x[11, 0] = 101.0
    single = copy.deepcopy(net)
    pipeline, mine = of_replicas(ge.gpipe(1, 13), net, LOSS, x)
    part = slice(0, 9) if mine == 0 else slice(9, 13)
    for one, target in zip(x.split(1), y.split(1), strict=True):
        (LOSS(single(one), target) / len(x)).backward()
    pipeline.step(x[part], y[part])
    used, unused = (pipeline.layers[name].weight.grad for name in "01")
    return {"apart": float((used - single[0].weight.grad).abs().max()), "unused": unused}


def another_net(change, replicas=False, predicts=False):
    """What the first step, or prediction, says to ranks of which the last one has built another network."""
    (x, y), net, said = data(), network(nn.BatchNorm1d(6).double()), []
    if dist.get_rank() == dist.get_world_size() - 1:
        change(net)
    if replicas:
        pipeline, _ = of_replicas(ge.gpipe(2, 1), net, LOSS, x)
    else:
        pipeline = Pipeline(net, ge.gpipe(2, 1), LOSS, x)
    try:
        pipeline.predict(x) if predicts else pipeline.step(x, y)
    except ValueError as error:
        said.append(str(error))
    return said


def optimizer_of(pipeline, zero):
    if zero:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            pipeline.parameter_groups(), torch.optim.Adam, process_group=pipeline.replicas, lr=0.01
        )
    return torch.optim.Adam(pipeline.parameter_groups(), lr=0.01)


def groups_of(pipeline):
    """Adam with another rate and decay for biases."""
    named = list(pipeline.named_parameters())
    biases = [weight for name, weight in named if "bias" in name]
    others = [weight for name, weight in named if "bias" not in name]
    groups = [{"params": others}, {"params": biases, "lr": 0.02, "weight_decay": 0.1}]
    return torch.optim.Adam(groups, lr=0.01)


def with_one_mask(schedule, folder, load):
    """Layers 1 and 3 have one mask: names of this rank's buffers once saved, or the steps loaded and its numbers."""
    from gpipe_edu.cluster import saving

    mask, layers = torch.arange(5).double(), []
    for _ in range(2):
        layers += [nn.Linear(5, 5).double(), nn.Tanh()]
        layers[-1].register_buffer("mask", torch.zeros(5) if load else mask)
    layers[3].mask = layers[1].mask
    pipeline = Pipeline(nn.Sequential(*layers), schedule, LOSS, data()[0])
    optimizer = torch.optim.SGD(pipeline.parameters())
    if load:
        return saving.load(folder, pipeline, optimizer), [one.tolist() for _, one in pipeline.named_buffers()]
    saving.save(folder, pipeline, optimizer, 1)
    return [name for name, _ in pipeline.named_buffers()]


def scheduler_of(kind, optimizer):
    from torch.optim import lr_scheduler as kinds

    return {
        "exponential": lambda: kinds.ExponentialLR(optimizer, 0.6),
        "cosine": lambda: kinds.CosineAnnealingLR(optimizer, 5),
        "warm-up": lambda: kinds.SequentialLR(
            optimizer, [kinds.LinearLR(optimizer, 0.1, total_iters=2), kinds.StepLR(optimizer, 1, 0.5)], [2]
        ),
    }[kind]()


def training(
    schedule, folder, steps, *, copies=1, zero=False, end_at=None, groups=False, scheduler=None, lowered=None, seed=None
):
    """Losses of steps that go on from `folder`, which is written after each, and the learning rates behind.

    end_at: the step that is killed while saving. groups: two, with other settings. scheduler: its kind. lowered: the
    step behind which the rate is set to a tenth by hand. seed: of the network that is built before it is loaded.
    """
    import os
    import signal

    from torch.distributed.device_mesh import init_device_mesh

    from gpipe_edu.cluster import saving

    mesh = init_device_mesh("cpu", (copies, schedule.devices), mesh_dim_names=("replica", "stage"))
    (x, y), mine, net = data(12), mesh.get_local_rank("replica"), network()
    if seed is not None:
        for weight in net.parameters():
            nn.init.normal_(weight, generator=torch.Generator().manual_seed(seed + dist.get_rank()))
    pipeline = Pipeline(
        net,
        schedule,
        LOSS,
        x,
        group=mesh.get_group("stage"),
        replicas=mesh.get_group("replica") if copies > 1 else None,
    )
    optimizer = groups_of(pipeline) if groups else optimizer_of(pipeline, zero)
    planned = scheduler and scheduler_of(scheduler, optimizer)
    part = slice(mine * len(x) // copies, (mine + 1) * len(x) // copies)
    losses = {}
    for step in range(saving.load(folder, pipeline, optimizer, planned), steps):
        pipeline.zero_grad()
        loss = pipeline.step(x[part], y[part], of=len(x))
        optimizer.step()
        if planned:
            planned.step()
        if step == lowered:
            for group in optimizer.param_groups:
                group["lr"] /= 10
        total = torch.zeros(1, dtype=torch.float64) if loss is None else loss.reshape(1)
        dist.all_reduce(total)
        losses[step] = float(total)
        if zero:
            assert 0 < len(optimizer.optim.state) < len(list(pipeline.parameters())), "each replica has its share"
        if step == end_at:
            saving.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        saving.save(folder, pipeline, optimizer, step + 1, planned)
    return losses, [group["lr"] for group in optimizer.param_groups]


def saved_wrongly(folder):
    """What this rank is told of savings and loadings that would lose something."""
    from gpipe_edu.cluster.saving import load, save

    (x, _), rank, said = data(12), dist.get_rank(), {}

    def attempt(what, function, *arguments):
        try:
            said[what] = function(*arguments)
        except ValueError as error:
            said[what] = str(error)

    pipeline = Pipeline(network(), ge.gpipe(2, 3), LOSS, x)
    optimizer = groups_of(pipeline)
    save(f"{folder}/without", pipeline, optimizer, 1)
    attempt("other groups", load, f"{folder}/without", pipeline, optimizer_of(pipeline, False))
    scheduler = scheduler_of("exponential", optimizer)
    attempt("not given to save", save, f"{folder}/with", pipeline, optimizer, 1)
    attempt("not there", load, f"{folder}/without", pipeline, optimizer, scheduler)
    save(f"{folder}/with", pipeline, optimizer, 1, scheduler)
    attempt("not given to load", load, f"{folder}/with", pipeline, optimizer)
    few = torch.optim.SGD([weight for name, weight in pipeline.named_parameters() if name != "8.weight"])
    save(f"{folder}/few", pipeline, few, 1)
    attempt("more weights", load, f"{folder}/few", pipeline, torch.optim.SGD(pipeline.parameters()))
    shared = Pipeline(tied(LOSS)[0], ge.gpipe(2, 3), LOSS, x, balance=(2, 3))
    rates = torch.optim.SGD(shared.parameters(), lr=0.1 + rank)
    attempt("another rate for a copy", save, f"{folder}/copies", shared, rates, 1)
    if rank == 1:
        scheduler.last_epoch += 1
    attempt("apart", save, f"{folder}/with", pipeline, optimizer, 2, scheduler)
    return said
