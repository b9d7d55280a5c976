"""What goes wrong in a layer, a backward, a loss or a hook: the user's own error comes out, and nothing is lost."""

from __future__ import annotations

import gc
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gpipe_edu.pytorch import GPipe
from tests.each import each
from tests.processes import PATIENCE
from tests.pytorch.bench import Apply
from tests.pytorch.habits.test_own_layers import Selective
from tests.pytorch.habits.ways import TRAINS, batch, data, held, mlp, same

pytestmark = pytest.mark.slow


class Picky(Exception):
    """Can't be made from a message."""

    def __init__(self, code, *, where):
        super().__init__(code, where)
        self.code, self.where = code, where


ERRORS = {
    "value": ValueError("mine"),
    "picky": Picky(3, where="here"),
    "group": ExceptionGroup("mine", [ValueError("a"), TypeError("b")]),
    "stop": StopIteration("mine"),
    "assertion": AssertionError("mine"),
    "not_implemented": NotImplementedError("mine"),
    "memory": torch.OutOfMemoryError("mine"),
    "key": KeyError("mine"),
    "unicode": UnicodeDecodeError("utf8", b"mine", 0, 1, "mine"),
    "os": OSError(5, "mine"),
    "system_exit": SystemExit(3),
    "interrupt": KeyboardInterrupt("mine"),
    "generator_exit": GeneratorExit("mine"),
}


class Fails(nn.Module):
    def __init__(self, error, at):
        super().__init__()
        self.error, self.at, self.on = error, at, True

    def forward(self, x):
        if self.on and self.at == "forward":
            raise self.error
        return FailsBackward.apply(x, self)


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.layer.on and ctx.layer.at == "backward":
            raise ctx.layer.error
        return gradient, None


def failing(error, at):
    net = mlp()
    net[3] = Fails(error, at)
    return net


@pytest.mark.parametrize("at", ["forward", "backward"])
@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@each("way", TRAINS)
def test_errors_come_out_as_they_are(way, error, at):
    net = failing(error, at)
    model = way.wrap(net)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    before = held(net)
    with pytest.raises(type(error)) as caught:
        way.learn(model, *data())
    assert caught.value is error
    same(held(net), before)

    net[3].on = False
    model.zero_grad()
    expected = failing(error, at)
    expected[3].on = False
    found = way.learn(model, *data())
    loss = F.mse_loss(expected(data()[0]), data()[1])
    loss.backward()
    same((found, held(net)), (loss.detach(), held(expected)))


def raising(error):
    def hook(*_):
        raise error

    return hook


HOOKS = {
    "forward": lambda net, hook: net[2].register_forward_hook(hook),
    "forward_pre": lambda net, hook: net[4].register_forward_pre_hook(hook),
    "backward": lambda net, hook: net[2].register_full_backward_hook(hook),
    "weight": lambda net, hook: net[0].weight.register_hook(hook),
    "after_accumulation": lambda net, hook: net[4].weight.register_post_accumulate_grad_hook(hook),
}


@pytest.mark.parametrize("kind", HOOKS)
@each("way", TRAINS)
def test_errors_of_hooks(way, kind):
    net = mlp()
    model = way.wrap(net)
    handle = HOOKS[kind](net, raising(KeyError("mine")))
    with pytest.raises(KeyError, match="mine"):
        way.learn(model, *data())
    handle.remove()
    model.zero_grad()
    expected = mlp()
    F.mse_loss(expected(data()[0]), data()[1]).backward()
    way.learn(model, *data())
    same(held(net), held(expected))


@each("way", [way for way in TRAINS if way.steps])
def test_errors_of_a_loss_name_their_micro_batch(way):
    pipe, calls = way.wrap(mlp()), []

    def loss_fn(out, y):
        calls.append(out)
        if len(out) == 2 and len(calls) > 1:  # the second micro-batch, of 3, 2 and 2 samples
            raise ZeroDivisionError("mine")
        return F.mse_loss(out, y)

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        pipe.step(*data(), loss_fn)
    assert "micro-batch 1" in "".join(caught.value.__notes__)
    assert all(weight.grad is None for weight in pipe.parameters())


class Asks(nn.Module):
    """A force: the gradient of an energy, asked for in a forward."""

    def __init__(self):
        super().__init__()
        self.energy = nn.Linear(8, 1).double()

    def forward(self, x):
        return torch.autograd.grad(self.energy(x).pow(3).sum(), x, create_graph=True)[0]


def asking(net):
    net[3] = Asks()


def hooked(net):
    net[2].register_forward_hook(lambda layer, inputs, out: out.register_hook(lambda g: None) and None)


def computed_before(net):
    scale = net[0].weight.norm() ** 2
    net[3] = Apply(lambda x: x * scale)


def selective(net):
    net[3] = Selective(8).double()


CRYPTIC = {
    "gradient_in_a_forward": (asking, TRAINS[:1], "enable_grad"),
    "hook_on_an_activation": (hooked, TRAINS[:1], "requires_grad"),
    "computed_before_the_step": (computed_before, TRAINS, "before the step"),
    "selective_checkpoint": (selective, TRAINS[2:], "zero bubble makes it in two, I and W"),
}


@each("kind, way", [(kind, way) for kind in CRYPTIC for way in CRYPTIC[kind][1]])
def test_what_pytorch_says_is_explained(kind, way):
    change, _, words = CRYPTIC[kind]
    net = mlp()
    change(net)
    with pytest.raises(RuntimeError) as caught:
        way.learn(way.wrap(net), *data())
    assert words in "".join(caught.value.__notes__)


def test_gradient_in_a_forward_that_keeps_its_graph():
    nets = mlp(), mlp()
    for net in nets:
        torch.manual_seed(0)
        asking(net)
    GPipe(nets[0], 2, 3, schedule="zero_bubble", checkpoint="never").step(*data(), F.mse_loss)
    F.mse_loss(nets[1](data()[0]), data()[1]).backward()
    same(held(nets[0]), held(nets[1]))


@each("way", TRAINS)
def test_warnings_made_errors(way):
    class Warns(nn.Module):
        def forward(self, x):
            warnings.warn("mine", stacklevel=2)
            return x

    net = mlp()
    net[3] = Warns()
    model = way.wrap(net)
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="mine"):
        way.learn(model, *data())


@each("way", TRAINS)
def test_recursion_without_end(way):
    class Endless(nn.Module):
        def forward(self, x):
            return self.forward(x)

    net = mlp()
    net[3] = Endless()
    with pytest.raises(RecursionError):
        way.learn(way.wrap(net), *data())


@each("way", TRAINS)
def test_first_of_several_errors_is_told(way):
    net = mlp()
    for i in (1, 3, 5):
        net[i] = Fails(ValueError(f"layer {i}"), "forward")
    with pytest.raises(ValueError, match="layer 1"):
        way.learn(way.wrap(net), *data())


@each("way", TRAINS)
def test_error_in_a_recompute_only(way):
    class FailsAgain(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls > 3:
                raise ValueError("again")
            return x

    net = mlp()
    net[1] = FailsAgain()
    model = way.wrap(net)
    if way.checkpoint == "never":
        way.learn(model, *data())
        return
    with pytest.raises(ValueError, match="again"):
        way.learn(model, *data())
    assert all(weight.grad is None for weight in model.parameters())


@each("way", TRAINS)
def test_unlike_recompute_is_no_silence(way):
    """A layer whose recompute has another shape: an error, not a wrong gradient."""

    class Shrinks(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x[:, :8] if self.calls <= 3 else x[:, :7]

    net = mlp()
    net[3] = Shrinks()
    model = way.wrap(net)
    if way.checkpoint == "never":
        way.learn(model, *data())
        return
    with pytest.raises(RuntimeError):
        way.learn(model, *data())


def test_pipe_that_has_failed_leaves_no_thread_behind():
    before = set(threading.enumerate())
    pipe = GPipe(failing(ValueError("mine"), "forward"), 2, 3)
    for _ in range(3):
        with pytest.raises(ValueError, match="mine"):
            pipe(batch(6))
    workers = set(threading.enumerate()) - before
    assert len(workers) == 2
    del pipe
    gc.collect()
    for worker in workers:
        worker.join(PATIENCE)
    assert not any(worker.is_alive() for worker in workers)
