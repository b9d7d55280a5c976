"""What the processes of test_experts.py do: replicas of a pipeline of mixtures, which divide the experts."""

import copy
from math import inf

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline, build_layers, saving
from tests import mixture

from .jobs import apart, weights_apart

PARTS = (slice(0, 7), slice(7, 13))
"""The samples of each replica, where there are two."""


def pipeline_of(schedule, whole, change=lambda net, replica: net, **options):
    """A pipeline of `whole` with this replica's experts, and the number of the replica. change: makes another net of
    its net."""
    sizes = (dist.get_world_size() // schedule.devices, schedule.devices)
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("replica", "stage"))
    replicas, replica = mesh.get_group("replica"), mesh.get_local_rank("replica")
    net = nn.Sequential(*(mixture.SpreadMixture(layer, replicas) for layer in whole))
    net = change(net, replica)
    x, _ = mixture.samples(2)
    groups = {"group": mesh.get_group("stage"), "replicas": replicas, "experts": ["*.experts.*"]}
    return Pipeline(net, schedule, mixture.carried_loss, (x, x.new_zeros(2)), **(groups | options)), replica


def stepped(pipeline, x, y, **how):
    """The share of the loss, after one step."""
    return pipeline.step((x, x.new_zeros(len(x))), y, **how)


def on_one_device(single, x, y, M):
    """The loss of two replicas, of which each computes balancing losses for micro-batches of its own."""
    return sum(mixture.on_one_device(single, x[part], y[part], M, of=len(x)) for part in PARTS)


def differences(schedules):
    """For each schedule how far the loss, norms and clipped gradients of this rank are from one device's after three
    steps, of which one adds nothing up, and how many weights of experts it has."""
    found = []
    x, y = mixture.samples(13)
    for schedule in schedules:
        whole = mixture.blocks(mixture.Carrying, schedule.stages)
        single = copy.deepcopy(whole)
        pipeline, replica = pipeline_of(schedule, whole)
        part, off = PARTS[replica], 0.0
        for reduce in (True, False, True):
            loss = on_one_device(single, x, y, schedule.micro_batches)
            off = max(off, abs(pipeline.sum_over_ranks(stepped(pipeline, x[part], y[part], reduce=reduce)) - loss))
        off = max(off, apart(pipeline, single))
        for norm_type in (2.0, inf):
            expected = nn.utils.clip_grad_norm_(single.parameters(), 0.01, norm_type)
            off = max(off, abs(float(pipeline.clip_grad_norm(0.01, norm_type) - expected)))
        names = [name for name, _ in pipeline.named_parameters() if ".experts." in name]
        found.append((max(off, apart(pipeline, single)), len(names)))
    return found


def count_rows(expert, arguments, output):
    """Each expert counts, in a buffer, the tokens that it has seen."""
    expert.seen += len(output)


def with_counts():
    net = mixture.blocks(mixture.Carrying, 2)
    for layer in net:
        for expert in layer.experts.values():
            expert.register_buffer("seen", torch.zeros(()))
            expert.register_forward_hook(count_rows)
    return net


def training(folder, K, steps):
    """The first step of a training that goes on from `folder`, with K stages on as many replicas as there are ranks
    for, and how far losses, weights and counts of tokens are from one device's behind the last step, which is saved."""
    x, y = mixture.samples(16)
    single, off = with_counts(), 0.0
    replicas = dist.get_world_size() // K
    pipeline, replica = pipeline_of(ge.one_f_one_b(K, 8 // replicas), with_counts())
    optimizer, expected = (torch.optim.Adam(model.parameters(), lr=0.01) for model in (pipeline, single))
    first, part = (
        saving.load(folder, pipeline, optimizer),
        slice(16 // replicas * replica, 16 // replicas * (replica + 1)),
    )
    for step in range(steps):
        expected.zero_grad()
        loss = mixture.on_one_device(single, x, y, 8)  # micro-batches of two samples, as everywhere
        nn.utils.clip_grad_norm_(single.parameters(), 0.1)
        expected.step()
        if step >= first:
            pipeline.zero_grad()
            off = max(off, abs(pipeline.sum_over_ranks(stepped(pipeline, x[part], y[part])) - loss))
            pipeline.clip_grad_norm(0.1)
            optimizer.step()
    saving.save(folder, pipeline, optimizer, steps)
    counts = dict(single.named_buffers())
    seen = max(float((count - counts[name]).abs()) for name, count in pipeline.named_buffers())
    return first, max(off, weights_apart(pipeline, single), seen)


def without_tokens():
    """How far gradients are from one device's if all tokens of the first mixture go to the experts of replica 0, and
    whether the others' gradients there are zero."""
    (x, y), whole = mixture.samples(13), mixture.blocks(mixture.Carrying, 2)
    x = x.abs()
    with torch.no_grad():
        whole[0].router.weight.copy_(torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]))
    single = copy.deepcopy(whole)
    pipeline, replica = pipeline_of(ge.zero_bubble(2, 3), whole)
    on_one_device(single, x, y, 3)
    stepped(pipeline, x[PARTS[replica]], y[PARTS[replica]])
    idle = [weight for name, weight in pipeline.named_parameters() if name.startswith(("0.experts.2", "0.experts.3"))]
    return apart(pipeline, single), [bool((weight.grad == 0).all()) for weight in idle]


def build():
    return mixture.Carrying(6).double()


def built_by_ranks():
    """How far gradients are from one device's where each rank builds only its own layers."""
    (x, y), single = mixture.samples(13), build_layers([build, build])

    def builders(net, replica):
        return [lambda: mixture.SpreadMixture(build(), net[0].group)] * 2

    pipeline, replica = pipeline_of(ge.one_f_one_b(2, 3), mixture.blocks(mixture.Carrying, 2), builders)
    on_one_device(single, x, y, 3)
    stepped(pipeline, x[PARTS[replica]], y[PARTS[replica]])
    return apart(pipeline, single)


def as_the_page_says(block):
    """How far this rank's gradients are from one device's with a pipeline that `block` makes."""
    (x, y), whole = mixture.samples(13), mixture.blocks(mixture.Carrying, 2)
    single, layers = copy.deepcopy(whole), iter(whole)
    names = {
        "Mixture": lambda replicas: mixture.SpreadMixture(next(layers), replicas),
        "loss_fn": mixture.carried_loss,
        "x": (x, x.new_zeros(13)),
    }
    exec(f"import gpipe_edu as ge\nfrom torch import nn\nfrom gpipe_edu.cluster import Pipeline\n{block}", names)
    part = PARTS[names["mesh"].get_local_rank("replica")]
    on_one_device(single, x, y, 3)
    stepped(names["pipeline"], x[part], y[part])
    return apart(names["pipeline"], single)


def same_numbers(net, replica):
    """As an nn.ModuleList of one's own experts numbers them."""
    for layer in net:
        layer.experts = nn.ModuleDict(dict(zip("01", layer.experts.values(), strict=True)))
    return net


def another_router(net, replica):
    with torch.no_grad():
        net[1].router.weight += replica
    return net


def another_layer(net, replica):
    return net.append(mixture.Unchanged() if replica else nn.Identity())


def refusals():
    """What this rank is told of pipelines and steps that would not work, and how far a step behind them is off."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    (x, y), said, whole = mixture.samples(13), {}, mixture.blocks(mixture.Carrying, 2)
    single, schedule = copy.deepcopy(whole), ge.one_f_one_b(2, 3)

    def attempt(what, function):
        try:
            said[what] = str(function())
        except (TypeError, ValueError) as error:
            said[what] = str(error)

    def first_step(*change, **options):
        pipeline, replica = pipeline_of(schedule, copy.deepcopy(whole), *change, **options)
        return stepped(pipeline, x[PARTS[replica]], y[PARTS[replica]])

    for change in (same_numbers, another_router, another_layer):
        attempt(change.__name__, lambda change=change: first_step(change))
    attempt("no name", lambda: first_step(experts=["*.expert.*"]))
    attempt("a word", lambda: first_step(experts="*.experts.*"))
    attempt("not on one", lambda: first_step(experts=["*.experts.*", "*"][: 1 + (dist.get_rank() > 1)]))
    pipeline, replica = pipeline_of(schedule, whole)
    few = slice(0, 2) if replica else PARTS[0]
    attempt("few samples", lambda: stepped(pipeline, x[few], y[few]))
    on_one_device(single, x, y, 3)
    stepped(pipeline, x[PARTS[replica]], y[PARTS[replica]])
    shared = [weight for name, weight in pipeline.named_parameters() if name not in pipeline.experts]
    for what, weights in {"ZeRO": list(pipeline.parameters()), "ZeRO for others": shared}.items():
        zero = ZeroRedundancyOptimizer(weights, torch.optim.SGD, process_group=pipeline.replicas, lr=0.1)
        attempt(what, zero.step)
    return said, apart(pipeline, single)
