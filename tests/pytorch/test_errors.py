"""A failing forward, recompute or backward anywhere: the user's own exception once, soon, and nothing is broken."""

import copy
import gc
import itertools
import os
import signal
import threading

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe

from . import bench

pytestmark = pytest.mark.slow

K, M = 3, 3


class Boom(Exception):
    """What a user's layer raises."""


class _Trip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, fails):
        ctx.fails = fails
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        if ctx.fails:
            raise Boom("backward")
        return gradient, None


class Mine(nn.Module):
    """A layer on (x, micro-batch numbers) that fails at `where`, a pair of kind and micro-batch."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.where = None
        self.seen = []

    def forward(self, inputs):
        x, number = inputs
        m = int(number[0])
        self.seen.append(m)
        kind = "FR"[self.seen.count(m) - 1] if self.seen.count(m) < 3 else "?"
        if self.where == (kind, m):
            raise Boom(kind)
        return _Trip.apply(self.inner(x), self.where == ("B", m)), number


class First(nn.Module):
    def forward(self, inputs):
        return inputs[0]


OPTIONS = {
    "gpipe always": {"schedule": "gpipe", "checkpoint": "always"},
    "gpipe late": {"schedule": ge.gpipe(K, M, recompute="late")},
    "1f1b never": {"schedule": "1f1b", "checkpoint": "never"},
    "1f1b except_last": {"schedule": "1f1b"},
    "zero_bubble always": {"schedule": "zero_bubble", "checkpoint": "always"},
}


def build(**options):
    torch.manual_seed(0)
    net = nn.Sequential(*(Mine() for _ in range(K)), First())
    return net, GPipe(net, K, M, balance=[1, 1, 2], **options)


def inputs(N=6):
    x, y = bench.data(N)
    return (x, torch.arange(M).repeat_interleave(2)), y


def notes(error):
    return [note for note in getattr(error, "__notes__", []) if "micro-batch" in note]


@bench.every_way
@pytest.mark.parametrize("name", OPTIONS)
def test_a_failure_anywhere(name, way):
    net, pipe = build(**OPTIONS[name])
    x, y = inputs()
    kinds = {op.kind for row in pipe.schedule.rows for op in row}
    for layer in net:
        layer.seen = []
    bench.train(pipe, x, y, bench.mse, way)
    good = bench.grads(net)
    gc.collect()
    bystanders = threading.active_count()
    cells = list(itertools.product("FRB" if kinds & set("RC") else "FB", range(K), range(M)))
    for kind, k, m in cells:
        if kind == "R" and not any(o.kind in "RC" and o[1:] == (m, k) for row in pipe.schedule.rows for o in row):
            continue
        before = [(p, p.grad, p.grad.clone()) for p in net.parameters()]
        for layer in net:
            layer.seen = []
        net[k].where = (kind, m)
        with pytest.raises(Boom) as caught:
            bench.train(pipe, x, y, bench.mse, way)
        net[k].where = None
        told = notes(caught.value)
        assert len(told) == 1, told
        assert f"stage {k}" in told[0]
        assert f"micro-batch {m}" in told[0]
        allowed = {"F": "F", "R": "RC", "B": "BCIW"}[kind]
        assert any(f"{op}{m}@{k}" in told[0] for op in allowed), told
        for p, grad, values in before:
            assert p.grad is grad
            assert torch.equal(grad, values)
    for layer in net:
        layer.seen = []
    net.zero_grad()
    bench.train(pipe, x, y, bench.mse, way)
    bench.assert_same(bench.grads(net), good, tolerance=0)
    assert threading.active_count() <= bystanders


def test_a_failure_before_the_first_gradient_leaves_none():
    net, pipe = build(checkpoint="never")
    net[0].where = ("B", 0)
    with pytest.raises(Boom):
        pipe.step(*inputs(), bench.mse)
    assert all(p.grad is None for p in net.parameters())


def test_two_stages_that_fail_at_once_give_one_exception():
    for _ in range(20):
        net, pipe = build(schedule="1f1b", checkpoint="never")
        net[0].where, net[1].where = ("F", 1), ("F", 0)
        with pytest.raises(Boom) as caught:
            pipe.step(*inputs(), bench.mse)
        assert len(notes(caught.value)) == 1


@pytest.mark.parametrize("schedule", ["naive", "gpipe", "1f1b", "zero_bubble"])
def test_a_loss_function_that_fails(schedule):
    net, pipe = build(schedule=schedule)
    pipe.step(*inputs(), bench.mse)
    good = bench.grads(net)

    def loss_fn(output, target):
        raise Boom

    with pytest.raises(Boom) as caught:
        pipe.step(*inputs(), loss_fn)
    assert len(notes(caught.value)) == 1
    assert f"stage {K - 1}" in notes(caught.value)[0]
    bench.assert_same(bench.grads(net), good, tolerance=0)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, StopIteration, MemoryError, GeneratorExit])
def test_unusual_exceptions_come_through(kind):
    class Raise(nn.Module):
        def forward(self, x):
            raise kind

    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), Raise()), 2, 2)
    with pytest.raises(kind):
        bench.within(lambda: pipe.step(*bench.data(4), bench.mse))


def send_signal():
    """As the terminal does: the process gets it, which wakes its main thread."""
    os.kill(os.getpid(), signal.SIGINT)


def raise_signal():
    """In a thread of its own: the main thread notices when a worker's report wakes it, before it has counted that."""
    signal.raise_signal(signal.SIGINT)


@pytest.mark.sweep
@pytest.mark.parametrize("interrupt", [send_signal, raise_signal])
@bench.every_way
def test_control_c_while_a_step_runs(way, interrupt):
    net = nn.Sequential(nn.Linear(4, 4), bench.Sleep(0.04), nn.Linear(4, 4), bench.Sleep(0.04))
    pipe, (x, y) = GPipe(net, 2, 4), bench.data(8)
    bench.train(pipe, x, y, bench.mse, way)
    good, objects = bench.grads(net), [p.grad for p in net.parameters()]
    timer = threading.Timer(0.1, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        bench.train(pipe, x, y, bench.mse, way)
    timer.join()
    assert all(p.grad is before for p, before in zip(net.parameters(), objects, strict=True))
    bench.assert_same(bench.grads(net), good, tolerance=0)
    net.zero_grad()
    bench.train(pipe, x, y, bench.mse, way)
    bench.assert_same(bench.grads(net), good, tolerance=0)


def test_backward_twice_says_why_not():
    pipe, (x, y) = GPipe(bench.mlp(), 2, 2), bench.data(4)
    loss = bench.mse(pipe(x), y)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="run forward again"):
        loss.backward()


def test_measurements_after_a_failed_first_step():
    net, pipe = build()
    net[0].where = ("F", 0)
    with pytest.raises(Boom):
        pipe.step(*inputs(), bench.mse)
    with pytest.raises(RuntimeError, match="step"):
        _ = pipe.timeline


def test_targets_with_a_graph_of_their_own_equal_plain_torch_or_are_refused():
    net, teacher, (x, y) = bench.mlp(), nn.Linear(4, 4), bench.data(8)
    plain = copy.deepcopy(net)
    bench.mse(plain(x), teacher(y)).backward()
    expected = bench.grads(teacher)
    teacher.zero_grad()
    try:
        GPipe(net, 2, 4).step(x, teacher(y), bench.mse)
    except ValueError as error:
        assert "detach" in str(error)  # noqa: PT017
    else:
        bench.assert_same(bench.grads(teacher), expected)
