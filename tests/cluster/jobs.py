"""What the processes of the tests do."""

import copy
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline

LOSS = nn.CrossEntropyLoss()


def unwatched(function, *arguments, **named):
    """PyTorch's messages are no learner's: some releases greet their own rank, which the watch would object to."""
    from gpipe_edu.distributed.rank import this_watch

    this_watch().diary = None
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


def batchnorm():
    (x, y), net = data(12), network(nn.BatchNorm1d(6).double())
    single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), ge.gpipe(2, 4), LOSS, x)
    for piece, target in zip(x.split(3), y.split(3), strict=True):
        (LOSS(single(piece), target) / 4).backward()
    pipeline.step(x, y)
    try:
        pipeline.step(x[:11], y[:11])
        refused = ""
    except ValueError as error:
        refused = str(error)
    counts = [int(buffer) for name, buffer in pipeline.named_buffers() if "num_batches" in name]
    return {"apart": apart(pipeline, single), "counts": counts, "refused": refused}


def clipped():
    (x, y), net = data(), network()
    single, pipeline = copy.deepcopy(net), Pipeline(copy.deepcopy(net), ge.one_f_one_b(2, 4), LOSS, x)
    LOSS(single(x), y).backward()
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


def replicas(schedule):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, schedule.devices), mesh_dim_names=("replica", "stage"))
    (x, y), net, mine = data(), network(), mesh.get_local_rank("replica")
    single = copy.deepcopy(net)
    pipeline = Pipeline(
        copy.deepcopy(net),
        schedule,
        LOSS,
        x,
        group=mesh.get_group("stage"),
        replicas=mesh.get_group("replica"),
    )
    messages, all_reduce = [], dist.all_reduce

    def counted(*arguments, **named):
        messages.append(1)
        return all_reduce(*arguments, **named)

    for reduce in (False, True):
        LOSS(single(x), y).backward()
        part = slice(0, 7) if mine == 0 else slice(7, 13)
        dist.all_reduce = counted
        try:
            pipeline.step(x[part], y[part], of=len(x), reduce=reduce)
        finally:
            dist.all_reduce = all_reduce
    found = {"apart": apart(pipeline, single), "messages": len(messages), "refused": ""}
    try:
        pipeline.step(x[part], y[part], of=len(x))
    except ValueError as error:
        found["refused"] = str(error)
    return found


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
    for inputs, labels in [(x[:, :4], y), (x.float(), y), (x, y[:5]), (x[:0], y[:0])]:
        try:
            pipeline.step(inputs, labels)
        except ValueError as error:
            said.append(str(error))
    return said


def refusal(schedule):
    try:
        Pipeline(network(), schedule, LOSS, data()[0])
    except ValueError as error:
        return str(error)
    return ""


def optimizer_of(pipeline, zero):
    if zero:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            pipeline.parameters(), torch.optim.Adam, process_group=pipeline.replicas, lr=0.01
        )
    return torch.optim.Adam(pipeline.parameters(), lr=0.01)


def training(schedule, folder, steps, *, copies=1, zero=False, end_at=None):
    """Losses of steps that go on from `folder`, which is written after each; killed at step `end_at`, while saving."""
    import os
    import signal

    from torch.distributed.device_mesh import init_device_mesh

    from gpipe_edu.cluster import saving

    mesh = init_device_mesh("cpu", (copies, schedule.devices), mesh_dim_names=("replica", "stage"))
    (x, y), mine = data(12), mesh.get_local_rank("replica")
    pipeline = Pipeline(
        network(),
        schedule,
        LOSS,
        x,
        group=mesh.get_group("stage"),
        replicas=mesh.get_group("replica") if copies > 1 else None,
    )
    optimizer = optimizer_of(pipeline, zero)
    part = slice(mine * len(x) // copies, (mine + 1) * len(x) // copies)
    losses = {}
    for step in range(saving.load(folder, pipeline, optimizer), steps):
        pipeline.zero_grad()
        loss = pipeline.step(x[part], y[part], of=len(x))
        optimizer.step()
        total = torch.zeros(1, dtype=torch.float64) if loss is None else loss.reshape(1)
        dist.all_reduce(total)
        losses[step] = float(total)
        if zero:
            assert 0 < len(optimizer.optim.state) < len(list(pipeline.parameters())), "each replica has its share"
        if step == end_at:
            saving.os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
        saving.save(folder, pipeline, optimizer, step + 1)
    return losses
