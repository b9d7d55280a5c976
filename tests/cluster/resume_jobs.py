"""What the processes of test_resume.py do."""

import copy
import json
import os
import random
import resource
import signal
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.optim import lr_scheduler as rates

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline, saving

from .jobs import LOSS, data, groups_of, network, optimizer_of, weights_apart


class Slowing(torch.optim.Optimizer):
    """SGD whose rate falls with a count that is a plain number, as some optimizers keep it."""

    def __init__(self, weights):
        super().__init__(weights, {"lr": 0.1})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                state["count"] = state.get("count", 0) + 1
                weight -= group["lr"] / state["count"] * weight.grad


def pipelines(schedule, copies, net):
    """This rank's pipeline, and the number of its replica."""
    mesh = init_device_mesh("cpu", (copies, schedule.devices), mesh_dim_names=("replica", "stage"))
    replicas = mesh.get_group("replica") if copies > 1 else None
    pipeline = Pipeline(net, schedule, LOSS, data()[0], group=mesh.get_group("stage"), replicas=replicas)
    return pipeline, mesh.get_local_rank("replica")


def training(schedule, folder, steps, *, copies=1, dropout=True, zero=False, kill=None):
    """Losses of steps that go on from `folder`, where every second is saved; each is also written to a file at once.

    A step's samples come from a generator, Python, NumPy and a position; the rate falls by a count and by a plateau.
    kill: after how many seconds this process kills itself, for each rank.
    """
    x, y = data(60)
    pipeline, mine = pipelines(schedule, copies, network(*[nn.Dropout(0.3)] * dropout))
    if zero:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(pipeline.parameters(), Slowing, process_group=pipeline.replicas)
    else:
        optimizer = Slowing(pipeline.parameters())
    plateau = rates.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.5)
    # Of the drawn samples, the generator draws the order, NumPy the scale, Python the shift.
    generator, place = torch.Generator().manual_seed(5), {"first": 0, "order": []}
    random.seed(5)
    np.random.seed(5)
    extra = {"generator": generator, "place": place}
    done = saving.load(folder, pipeline, optimizer, plateau, extra)
    end = None
    if kill and (seconds := kill[dist.get_rank()]) is not None:
        end = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL))
        end.start()
    losses, size = {}, 12 // copies
    for step in range(done, steps):
        if not place["order"]:
            place["order"] = torch.randperm(len(x), generator=generator).tolist()
        chosen = place["order"][place["first"] : place["first"] + 12]
        place["first"] += 12
        if place["first"] == len(x):
            place.update(first=0, order=[])
        inputs = x[chosen] * float(np.random.uniform(0.9, 1.1)) + random.uniform(-0.1, 0.1)
        part = slice(mine * size, (mine + 1) * size)
        pipeline.zero_grad()
        loss = pipeline.step(inputs[part], y[chosen][part], of=12)
        optimizer.step()
        total = torch.zeros(1, dtype=torch.float64) if loss is None else loss.reshape(1)
        dist.all_reduce(total)
        plateau.step(float(total))
        losses[step] = float(total)
        if dist.get_rank() == 0:
            with open(f"{folder}-losses", "a") as file:
                file.write(f"{json.dumps([step, float(total), optimizer.param_groups[0]['lr']])}\n")
        if step % 2:
            saving.save(folder, pipeline, optimizer, step + 1, plateau, extra)
    if end:
        end.join()  # and be killed, if that was quicker than the moment
    return losses, optimizer.param_groups[0]["lr"]


def without_weights(folder, steps, zero):
    """The first step that goes on from `folder`, how far weights are from one device's behind the last one, and how
    many there are here: the second stage has none."""
    x, y = data(12)
    net = nn.Sequential(*network(), *(nn.Softsign() for _ in range(9)))
    single, copies = copy.deepcopy(net), 2 if zero else 1
    pipeline, mine = pipelines(ge.one_f_one_b(2, 3), copies, net)
    part = slice(mine * 12 // copies, (mine + 1) * 12 // copies)
    optimizer = optimizer_of(pipeline, zero and pipeline.first)  # ZeRO's takes no group without weights
    first = saving.load(folder, pipeline, optimizer)
    for step in range(first, steps):
        pipeline.zero_grad()
        pipeline.step(x[part], y[part])
        pipeline.clip_grad_norm(0.01)
        optimizer.step()
        saving.save(folder, pipeline, optimizer, step + 1)
    expected = torch.optim.Adam(single.parameters(), lr=0.01)
    for _ in range(steps):
        expected.zero_grad()
        LOSS(single(x), y).backward()
        nn.utils.clip_grad_norm_(single.parameters(), 0.01)
        expected.step()
    return first, weights_apart(pipeline, single), len(list(pipeline.parameters()))


def simple(schedule, folder, steps, *, limit=None, width=None):
    """Losses of steps that are all saved, what this rank was warned of, and why saving or loading failed.

    limit: bytes that rank 1 may write to a file, from the second step on. width: of the layer that it has, of another
    network.
    """
    (x, y), said, net = data(12), "", network()
    if width:
        net = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, width), nn.Linear(width, 3)).double()
    pipeline = Pipeline(net, schedule, LOSS, x)
    optimizer = torch.optim.Adam(pipeline.parameters(), lr=0.01)
    losses = {}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            for step in range(saving.load(folder, pipeline, optimizer), steps):
                pipeline.zero_grad()
                loss = pipeline.step(x, y)
                optimizer.step()
                losses[step] = loss if loss is None else float(loss)
                with limited(limit if step and dist.get_rank() == 1 else None):
                    saving.save(folder, pipeline, optimizer, step + 1)
        except (OSError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
    return losses, [str(one.message) for one in heard if one.category is UserWarning], said


def apart(folder):
    """What each rank is told that saves into a folder of its own."""
    pipeline = Pipeline(network(), ge.gpipe(2, 2), LOSS, data(12)[0])
    try:
        saving.save(f"{folder}/{dist.get_rank()}", pipeline, torch.optim.Adam(pipeline.parameters()), 1)
    except OSError as error:
        return str(error)
    return ""


def skipping(schedule, folder, step):
    """Load, and save as if that were `step`."""
    pipeline = Pipeline(network(), schedule, LOSS, data(12)[0])
    optimizer = torch.optim.Adam(pipeline.parameters(), lr=0.01)
    saving.load(folder, pipeline, optimizer)
    saving.save(folder, pipeline, optimizer, step)


@contextmanager
def limited(size):
    """Files that are written may have at most so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


OPTIMIZERS = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9, nesterov=True),
    "amsgrad": lambda weights: torch.optim.Adam(weights, lr=0.01, amsgrad=True, weight_decay=0.1),
    "a tensor for a rate": lambda weights: torch.optim.AdamW(weights, lr=torch.tensor(0.01)),
    **{
        name: getattr(torch.optim, name)
        for name in ("Adadelta", "Adafactor", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")
    },
    "plain numbers": Slowing,
}
SCHEDULERS = {
    "none": lambda optimizer: None,
    "step": lambda optimizer: rates.StepLR(optimizer, 2, 0.3),
    "several steps": lambda optimizer: rates.MultiStepLR(optimizer, [1, 3], 0.3),
    "lambda": lambda optimizer: rates.LambdaLR(optimizer, lambda step: 1 / (1 + step)),
    "factor": lambda optimizer: rates.MultiplicativeLR(optimizer, lambda step: 0.7),
    "polynomial": lambda optimizer: rates.PolynomialLR(optimizer, 6, 2),
    "one cycle": lambda optimizer: rates.OneCycleLR(optimizer, 0.1, total_steps=8),
    "cycles": lambda optimizer: rates.CyclicLR(optimizer, 0.01, 0.1, step_size_up=2, cycle_momentum=False),
    "warm restarts": lambda optimizer: rates.CosineAnnealingWarmRestarts(optimizer, 3),
    "chained": lambda optimizer: rates.ChainedScheduler(
        [rates.ConstantLR(optimizer, 0.5, 2), rates.ExponentialLR(optimizer, 0.8)]
    ),
    "plateau": lambda optimizer: rates.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5),
}


KINDS = list(dict.fromkeys([*((name, "step") for name in OPTIMIZERS), *(("SGD", name) for name in SCHEDULERS)]))
"""Pairs of an optimizer and a scheduler: each of both is in one."""


def kinds(folder, pairs):
    """Of which of these a training, saved after two of its four steps, goes on in another way."""
    return [pair for pair in pairs if goes_on(folder, *pair, 2) != goes_on(folder, *pair, None)]


def goes_on(folder, optimizer, scheduler, saved_after):
    """The rates, and this rank's weights after each step, of which the training of the first two ends."""
    (x, y), found = data(12), []
    for first, end in [(0, 4)] if saved_after is None else [(0, saved_after), (saved_after, 4)]:
        pipeline = Pipeline(network(), ge.one_f_one_b(2, 3), LOSS, x)
        made = OPTIMIZERS[optimizer](pipeline.parameters())
        planned = SCHEDULERS[scheduler](made)
        place = f"{folder}/{optimizer} {scheduler}"
        if saved_after is not None:
            assert saving.load(place, pipeline, made, planned) == first
        for _ in range(first, end):
            pipeline.zero_grad()
            pipeline.step(x, y)
            made.step()
            if planned:
                planned.step(*[1.0] * (scheduler == "plateau"))
            found += [float(made.param_groups[0]["lr"]), *(weight.tolist() for weight in pipeline.parameters())]
        if saved_after == end:
            saving.save(place, pipeline, made, end, planned)
    return found


def groups_without_weights(schedule, folder, steps, scheduler):
    """Weights with and without decay, of which some ranks have none: trains up to so many steps from `folder` on, and
    saves; how far this rank's weights are from one device's, which trains without a break, and its rates beside those.
    Without a scheduler the rate of the first group is set for all, by hand.
    """

    def build():
        torch.manual_seed(0)
        return nn.Sequential(nn.LayerNorm(5), *(nn.Linear(5, 5, bias=k == 1) for k in range(3))).double()

    def parts(model):
        weights = list(model.parameters())
        groups = [{"params": [one for one in weights if one.ndim > 1], "weight_decay": 0.1}]
        groups.append({"params": [one for one in weights if one.ndim < 2], "lr": 0.2})
        optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
        return optimizer, SCHEDULERS[scheduler](optimizer)

    def go_on(optimizer, planned):
        optimizer.step()
        if planned:
            planned.step(*[1.0] * (scheduler == "plateau"))
        else:
            half = 0.5 * optimizer.param_groups[0]["lr"]
            for group in optimizer.param_groups:
                group["lr"] = half

    x, single = data(12)[0], build()
    optimizer, planned = parts(single)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(single(x), x).backward()
        go_on(optimizer, planned)
    pipeline = Pipeline(build(), schedule, nn.functional.mse_loss, x)
    mine, mine_planned = parts(pipeline)
    for step in range(saving.load(folder, pipeline, mine, mine_planned), steps):
        pipeline.zero_grad()
        pipeline.step(x, x)
        go_on(mine, mine_planned)
        saving.save(folder, pipeline, mine, step + 1, mine_planned)
    empty = [place for place, group in enumerate(mine.param_groups) if not group["params"]]
    rates_of = [[group["lr"] for group in one.param_groups] for one in (mine, optimizer)]
    return weights_apart(pipeline, single), rates_of, empty


def own_places(folder, schedule, copies, by):
    """Save, if nothing is there, an extra that tells `by` what it is whose; else load and return it, or why not."""
    pipeline, mine = pipelines(schedule, copies, network())
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    place = {"of": {"replica": mine, "rank": dist.get_rank(), "all": 0}[by]}
    if not Path(folder).exists():
        saving.save(folder, pipeline, optimizer, 1, extra={"place": place})
        return place
    place = {"of": "nobody's", "other": 1}
    try:
        saving.load(folder, pipeline, optimizer, extra={"place": place})
    except ValueError as error:
        return str(error)
    return place


def refusals(folder):
    """What this rank is told of savings and loadings that would lose something."""
    said = {}
    pipeline = Pipeline(network(), ge.gpipe(2, 3), LOSS, data()[0])

    def attempt(what, function, *arguments, **named):
        try:
            said[what] = str(function(*arguments, **named))
        except (TypeError, ValueError) as error:
            said[what] = str(error)

    def stepped():
        """An optimizer of a group of biases behind one of weights, and its scheduler."""
        optimizer = groups_of(pipeline)
        return optimizer, rates.LambdaLR(optimizer, [lambda step: 0.5**step, lambda step: 1.0])

    optimizer, scheduler = stepped()
    saving.save(f"{folder}/lambda", pipeline, optimizer, 1, scheduler)
    attempt("the same order", saving.load, f"{folder}/lambda", pipeline, *stepped())
    biases, others = reversed([list(group["params"]) for group in optimizer.param_groups])
    turned = torch.optim.Adam([{"params": biases, "lr": 0.02, "weight_decay": 0.1}, {"params": others}], lr=0.01)
    planned = rates.LambdaLR(turned, [lambda step: 1.0, lambda step: 0.5**step])
    attempt("another order", saving.load, f"{folder}/lambda", pipeline, turned, planned)
    one = torch.optim.Adam(pipeline.parameters())
    planned = rates.LambdaLR(one, lambda step: 1.0)
    attempt("one group", saving.load, f"{folder}/lambda", pipeline, one, planned)

    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.1)
    plateau = rates.ReduceLROnPlateau(optimizer)
    attempt("a plateau", saving.save, f"{folder}/plateau", pipeline, optimizer, 1)
    attempt("a plateau as extra", saving.save, f"{folder}/plateau", pipeline, optimizer, 1, extra={"rate": plateau})
    attempt("an extra not given", saving.load, f"{folder}/plateau", pipeline, optimizer)
    both = {"rate": plateau, "more": {}}
    attempt("an extra too many", saving.load, f"{folder}/plateau", pipeline, optimizer, extra=both)
    attempt("a number", saving.save, f"{folder}/plateau", pipeline, optimizer, 2, extra={"seen": 3})
    other = torch.optim.SGD([*pipeline.parameters(), nn.Parameter(torch.zeros(1))])
    attempt("a foreign weight", saving.save, f"{folder}/foreign", pipeline, other, 1)
    keeping = torch.optim.SGD(pipeline.parameters())
    keeping.state["all"] = {"count": 1}
    attempt("state of no weight", saving.save, f"{folder}/foreign", pipeline, keeping, 1)
    if dist.get_rank() == 1:
        attempt("other names", saving.save, f"{folder}/names", pipeline, torch.optim.SGD(pipeline.parameters()), 1)
    else:
        named = {"seen": {}}
        mine = torch.optim.SGD(pipeline.parameters())
        attempt("other names", saving.save, f"{folder}/names", pipeline, mine, 1, extra=named)
    return said
