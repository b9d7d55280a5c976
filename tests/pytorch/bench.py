"""What the tests of this folder share: models, schedules, and plain one-device training to compare with."""

import copy
import threading
import time

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe
from gpipe_edu.schedule import Op, Schedule
from tests.amount import whole
from tests.processes import PATIENCE

mse = nn.functional.mse_loss


class Apply(nn.Module):
    """A layer that is one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class First(nn.Module):
    """The first of what a layer returns: outputs without a state, say."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


def mse_sum(output, target):
    return mse(output, target, reduction="sum")


def replaced(schedule, change):
    """The schedule with every op replaced by those that `change` gives."""
    return Schedule([[new for op in row for new in change(op)] for row in schedule.rows])


def with_r(schedule, which=lambda m, k: True):
    """An R in front of the backward of every cell that `which` picks."""
    return replaced(schedule, lambda o: [Op("R", *o[1:]), o] if o.kind in "BI" and which(*o[1:]) else [o])


def with_c(schedule, which):
    """C instead of B for every cell that `which` picks."""
    return replaced(schedule, lambda o: [Op("C", *o[1:])] if o.kind == "B" and which(*o[1:]) else [o])


HAND_WRITTEN = {
    "gpipe, kept": ge.gpipe,
    "gpipe, late": lambda K, M: ge.gpipe(K, M, recompute="late"),
    "gpipe, early": lambda K, M: ge.gpipe(K, M, recompute="early"),
    "interleaved": lambda K, M: ge.interleaved(K, M, 2),
    "breadth first": lambda K, M: ge.breadth_first(K, M, 2),
    "interleaved zero bubble": lambda K, M: ge.interleaved_zero_bubble(K, M, 2),
    "zero bubble V": ge.zero_bubble_v,
    "DualPipeV": ge.dual_pipe_v,
    "interleaved, R": lambda K, M: with_r(ge.interleaved(K, M, 2)),
    "zero bubble, R before I": lambda K, M: with_r(ge.zero_bubble(K, M)),
    "zero bubble, some R": lambda K, M: with_r(ge.zero_bubble(K, M), lambda m, k: (m + k) % 2),
    "1f1b, C and B mixed": lambda K, M: with_c(ge.one_f_one_b(K, M), lambda m, k: (m + k) % 2),
    "1f1b, R, C and B mixed": lambda K, M: with_r(
        with_c(ge.one_f_one_b(K, M), lambda m, k: (m + k) % 3 == 1), lambda m, k: (m + k) % 3 == 0
    ),
}
WAYS = ("step", "transparent")
every_way = pytest.mark.parametrize("way", WAYS)
MODES = ("always", "except_last", "never")
NAMED = [(name, mode) for name in ("naive", "gpipe", "1f1b", "zero_bubble") for mode in MODES]


def variants(K, M):
    """Arguments of GPipe for every named schedule with every mode, and every hand-written one."""
    for name, mode in NAMED:
        yield {"partitions": K, "micro_batches": M, "schedule": name, "checkpoint": mode}
    for build in HAND_WRITTEN.values():
        schedule = build(K, M)
        yield {"partitions": schedule.stages, "micro_batches": M, "schedule": schedule}


def some_variants(K, M):
    """All variants; daily every other one, among which each named schedule and each mode is."""
    found = list(variants(K, M))
    return found if whole() else found[::2]


def mlp(layers=4, width=4, seed=0, norm=False):
    """Pairs of Linear and Tanh, with LayerNorm between them if asked."""
    torch.manual_seed(seed)
    net = nn.Sequential()
    for _ in range(layers):
        net.append(nn.Linear(width, width))
        net.append(nn.Sequential(nn.LayerNorm(width), nn.Tanh()) if norm else nn.Tanh())
    return net


def data(N, width=4, seed=1):
    """Inputs and targets."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, width, generator=generator), torch.randn(N, width, generator=generator)


def grads(module):
    """Copies of all gradients by name."""
    return {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}


def assert_same(ours, expected, tolerance=1e-10):
    """Gradients by name: the same ones missing, the others equal."""
    assert ours.keys() == expected.keys()
    for name, want in expected.items():
        have = ours[name]
        assert (have is None) == (want is None), f"{name}: plain torch gives {want}, the pipeline {have}"
        if want is not None:
            torch.testing.assert_close(have, want, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}")


def train(pipe, x, y, loss_fn, way):
    """One step in the given way; returns the loss."""
    if way == "step":
        return pipe.step(x, y, loss_fn, reduction="sum" if loss_fn is mse_sum else "mean")
    loss = loss_fn(pipe(x), y)
    loss.backward()
    return loss.detach()


def compare(net, x, y, loss_fn=mse, way="step", steps=1, **options):
    """Train `net` plainly and as a pipeline from the same weights: losses and gradients must be equal."""
    plain = copy.deepcopy(net)
    pipe = GPipe(net, **({"partitions": 2, "micro_batches": 4} | options))
    for _ in range(steps):
        expected = loss_fn(plain(x), y)
        expected.backward()
        loss = train(pipe, x, y, loss_fn, way)
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-10, atol=1e-10)
    assert_same(grads(net), grads(plain))
    return pipe


class Counter(nn.Module):
    """Counts its calls and passes its input on."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * 1


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        time.sleep(seconds)
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, None


class Sleep(nn.Module):
    """Takes `seconds` forward and as many backward, without using a core."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return _Sleep.apply(x * self.weight, self.seconds)


def within(function):
    """What `function` returns or raises; fails if it does not end (a daemon thread is then left behind)."""
    result = []

    def work():
        try:
            result.append((function(), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if not result:
        pytest.fail(f"still running after {PATIENCE} s: a deadlock")
    value, error = result[0]
    if error is not None:
        raise error
    return value
