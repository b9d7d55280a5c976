"""What the processes of test_layer_building.py do."""

import gc
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline, build_layers

from .jobs import LOSS, data, of_replicas, weights_apart

WIDE, DEEP = 1024, 100
"""100 layers of 4 MiB."""


def linear(a, b):
    return nn.Linear(a, b).double()


BUILDERS = [
    partial(linear, 5, 6),
    nn.Tanh,
    partial(nn.BatchNorm1d, 6, dtype=torch.float64),
    partial(linear, 6, 4),
    nn.Tanh,
    lambda: nn.Sequential(linear(4, 6), nn.GELU()),
    partial(linear, 6, 3),
]


def trained(schedule, net=None):
    """How far this rank's weights are from one device's after three steps. net: whole, or built by each rank."""
    (x, y), N = data(12), 12 // schedule.micro_batches
    torch.manual_seed(3)
    single = build_layers(BUILDERS)
    pipeline = Pipeline(BUILDERS if net is None else net, schedule, LOSS, x)
    optimizers = [torch.optim.Adam(weights.parameters(), lr=0.01) for weights in (single, pipeline)]
    for _ in range(3):
        for optimizer in optimizers:
            optimizer.zero_grad()
        for piece, target in zip(x.split(N), y.split(N), strict=True):
            (LOSS(single(piece), target) / schedule.micro_batches).backward()
        pipeline.step(x, y)
        for optimizer in optimizers:
            optimizer.step()
    return weights_apart(pipeline, single)


def whole_net(schedule):
    torch.manual_seed(3)
    return trained(schedule, build_layers(BUILDERS))


def calls():
    """How often this rank has called the function for each layer, apart from looks at it on the device "meta"."""
    made = [0] * len(BUILDERS)

    def counted(index):
        if torch.get_default_device().type != "meta":
            made[index] += 1
        return BUILDERS[index]()

    Pipeline([partial(counted, index) for index in range(len(made))], ge.interleaved(2, 2, 2), LOSS, data()[0])
    return made


def other_seeds(replicas):
    """What the first step says to ranks of which the last one has another seed."""
    last = dist.get_rank() == dist.get_world_size() - 1
    x, y = data(12)
    torch.manual_seed(7 if last else 3)
    if replicas:
        pipeline, _ = of_replicas(ge.gpipe(1, 2), BUILDERS, LOSS, x)
    else:
        pipeline = Pipeline(BUILDERS, ge.gpipe(2, 2), LOSS, x)
    try:
        pipeline.step(x, y)
    except ValueError as error:
        return str(error)
    return ""


def loaded(folder):
    """Whether a training that was saved goes on in layers that were built from another seed on each rank."""
    from gpipe_edu.cluster import saving

    x, y = data(12)
    losses = []
    for seed in (3, 3 + dist.get_rank()):
        torch.manual_seed(seed)
        pipeline = Pipeline(BUILDERS, ge.gpipe(2, 2), LOSS, x)
        optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
        if not saving.load(folder, pipeline, optimizer):
            pipeline.step(x, y)
            optimizer.step()
            saving.save(folder, pipeline, optimizer, 1)
        losses.append(pipeline.step(x, y))
    return losses


def refused(make):
    try:
        Pipeline(make(), ge.gpipe(2, 2), LOSS, data()[0])
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def peak(K):
    """The MiB by which this rank's memory has grown at most, for its part of a net of 400 MiB; all of it for K = 0."""
    gc.collect()
    before = memory("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the highest so far begins anew
    builders = [partial(nn.Linear, WIDE, WIDE, bias=False)] * DEEP
    if K:
        kept = Pipeline(builders, ge.gpipe(K, 2), nn.MSELoss(), torch.zeros(1, WIDE))
    else:
        kept = build_layers(builders)
    assert sum(weight.numel() for weight in kept.parameters()) == WIDE * WIDE * DEEP / max(K, 1)
    return memory("VmHWM") - before


def memory(name):
    with open("/proc/self/status") as file:
        [line] = [line for line in file if line.startswith(name)]
    return int(line.split()[1]) / 1024
