"""What the processes of test_other_words.py do: calls as users of one process, or of other libraries, make them."""

import copy
import io
import os

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline, Ranks

from .jobs import LOSS, apart, data, network

NORMS = (1, 2, 3.5, float("inf"))


def said_by(call):
    """The error that a call ends in, "" if in none."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def calls():
    """What a pipeline says to each call, and how far gradients of a step behind them are from one device's."""
    (x, y), net = data(), network()
    single, schedule = copy.deepcopy(net), ge.one_f_one_b(2, 4)
    pipeline, first = Pipeline(net, schedule, LOSS, x), dist.get_rank() == 0
    made = {
        "a name": lambda: Pipeline(net, "1f1b", LOSS, x),
        "a name of a recipe with V": lambda: Pipeline(net, "interleaved", LOSS, x),
        "no name": lambda: Pipeline(net, 4, LOSS, x),
        "partitions": lambda: Pipeline(net, schedule, LOSS, x, partitions=2),
        "another argument": lambda: Pipeline(net, schedule, LOSS, x, colour=2),
        "a sum beside a first step": lambda: pipeline.sum_over_ranks(1) if first else pipeline.step(x, y),
        "a clip beside a first prediction": lambda: pipeline.predict(x) if first else pipeline.clip_grad_norm(1.0),
        "a sum of two on rank 0": lambda: pipeline.sum_over_ranks(torch.ones(2) if first else None),
        "called": lambda: pipeline(x),
        "state_dict": lambda: pipeline.state_dict(),
        "load_state_dict": lambda: pipeline.load_state_dict({}),
        "to": lambda: pipeline.to("cpu"),
        "double": lambda: pipeline.double(),
        "modules": lambda: pipeline.modules(),
        "a slip": lambda: pipeline.stepp,
        "target": lambda: pipeline.step(x, target=y),
        "deepcopy": lambda: copy.deepcopy(pipeline),
        "copy": lambda: copy.copy(pipeline),
        "torch.save": lambda: torch.save(pipeline, io.BytesIO()),
        "no y on rank 0": lambda: pipeline.step(x, None if first else y),
        "no y": lambda: pipeline.step(x),
        "no x on rank 1": lambda: pipeline.step(x if first else None, y),
        "no x to predict": lambda: pipeline.predict(None),
        "norm_type": lambda: pipeline.clip_grad_norm(1.0, norm_type=0),
        "max_norm": lambda: pipeline.clip_grad_norm(1.0, max_norm=1.0),
        "clips that differ": lambda: pipeline.clip_grad_norm(1.0 if first else 2.0),
        "a clip beside a step": lambda: pipeline.clip_grad_norm(1.0) if first else pipeline.step(x, y),
        "a sum beside a prediction": lambda: pipeline.predict(x) if first else pipeline.sum_over_ranks(1),
    }
    said = {name: said_by(call) for name, call in made.items()}
    LOSS(single(x), y).backward()
    pipeline.step(x, y)
    return said, apart(pipeline, single), hasattr(pipeline, "state_dict")


def evaluated():
    """How far predictions in evaluation are from one device's, where there is dropout."""
    (x, _), net = data(), network(nn.Dropout(0.5))
    single, pipeline = copy.deepcopy(net), Pipeline(net, ge.gpipe(2, 4), LOSS, x)
    outputs = pipeline.eval().predict(x)
    return 0.0 if outputs is None else float((outputs - single.eval()(x)).abs().max())


def clipped():
    """For each kind of norm, how far it and the gradients are from those of one-device training."""
    (x, y), found = data(), []
    for kind in NORMS:
        single, pipeline = network(), Pipeline(network(), ge.one_f_one_b(2, 4), LOSS, x)
        LOSS(single(x), y).backward()
        pipeline.step(x, y)
        expected = nn.utils.clip_grad_norm_(single.parameters(), 0.01, norm_type=kind)
        norm = pipeline.clip_grad_norm(0.01, norm_type=kind)
        found.append(max(abs(float(norm) - float(expected)), apart(pipeline, single)))
    return found


def losses():
    """How far the loss that each rank knows is from one device's."""
    (x, y), single = data(), network()
    pipeline = Pipeline(network(), ge.one_f_one_b(2, 4), LOSS, x)
    return abs(pipeline.sum_over_ranks(pipeline.step(x, y)) - float(LOSS(single(x), y)))


class Failing(nn.Module):
    """Fails in its backward, if `broken` says so."""

    broken = False

    def forward(self, x):
        out = x * 1
        if self.broken and out.requires_grad:
            out.register_hook(fail)
        return out


def fail(_):
    raise ValueError("too hot")


def after_an_error():
    """What calls say on the rank where a layer has failed in the last op, so that the other one has all it needs."""
    (x, y), net = data(), nn.Sequential(*network())
    net.insert(1, Failing())
    pipeline = Pipeline(net, ge.gpipe(2, 1), LOSS, x)
    pipeline.step(x, y)
    said = []
    if pipeline.first:
        pipeline.layers["1"].broken = True
    try:
        pipeline.step(x, y)
    except ValueError as error:
        kept = error  # and with it the messages under way: gloo drops those that nobody holds
        said = [str(kept)]
        try:
            pipeline.predict(x)
        except SystemExit as error:
            said.append(str(error))
    dist.barrier()
    return said


def a_second_group():
    """What `Ranks()` says where a process group is there already, and whether this process can go on."""
    os.environ.update(RANK=str(dist.get_rank()), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    said = said_by(Ranks)
    together = torch.ones(1)
    dist.all_reduce(together)
    return said, float(together)
