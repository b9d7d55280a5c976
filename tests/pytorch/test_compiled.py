"""Layers under torch.compile run compiled, in every stage, and nobody else's code sees that something compiles."""

import copy
import threading

import pytest

from tests.processes import printed

from . import bench

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from functorch.compile import make_boxed_compiler, make_boxed_func  # noqa: E402
from torch import nn  # noqa: E402
from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

from gpipe_edu.pytorch import GPipe  # noqa: E402

F = nn.functional
X, Y = (part.double() for part in bench.data(8))


pytestmark = pytest.mark.skipif(torch.__version__ < "2.12", reason="compiling in a thread crashes in PyTorch 2.11")


@pytest.fixture(autouse=True)
def compiles_anew():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Backend:
    """Counts what it compiles and the calls of that, and in which threads."""

    def __init__(self):
        self.graphs, self.calls, self.threads = 0, 0, set()

    def __call__(self, module, example):
        self.graphs += 1

        def run(*args):
            self.calls += 1
            self.threads.add(threading.current_thread().name)
            return module.forward(*args)

        return run


class Drawing(nn.Module):
    """A layer that may draw, so that its draws are watched for."""

    def __init__(self, p=0.5):
        super().__init__()
        self.linear, self.p = nn.Linear(4, 4), p
        self.said = set()

    def forward(self, x):
        return F.dropout(self.linear(x), self.p) if self.p else torch.tanh(self.linear(x))


class Asking(Drawing):
    def forward(self, x):
        self.said.add(torch.compiler.is_compiling())
        return super().forward(x)


def by_wrapper(layer, backend):
    return torch.compile(layer, backend=backend)


def by_method(layer, backend):
    layer.compile(backend=backend)
    return layer


def by_function(layer, backend):
    layer.forward = torch.compile(layer.forward, backend=backend)
    return layer


@pytest.mark.sweep
@pytest.mark.parametrize("way", [by_wrapper, by_method, by_function])
@pytest.mark.parametrize("mode", ["never", "always"])
def test_compiled_layers_run_compiled_and_train_as_plain_ones(way, mode):
    torch.manual_seed(0)
    plain, backend = nn.Sequential(Drawing(), Drawing(0), Drawing()), Backend()
    net = nn.Sequential(*(way(copy.deepcopy(layer), backend) for layer in plain))
    results = []
    for layers in (plain, net):
        torch.manual_seed(1)
        pipe = GPipe(layers, 3, 4, checkpoint=mode)
        for _ in range(3):
            pipe.step(X, Y, bench.mse)
        results.append([weight.grad for weight in layers.parameters()])
    for have, want in zip(*results, strict=True):
        torch.testing.assert_close(have, want)
    assert backend.graphs
    assert backend.calls == 3 * 3 * 4 * (2 if mode == "always" else 1), "every forward of every layer"
    assert backend.threads == {f"stage worker {k}" for k in range(3)}


@bench.every_way
def test_no_other_stage_is_told_that_something_compiles(way):
    """PyTorch tells all threads; a new shape compiles again."""
    net = nn.Sequential(*(torch.compile(Drawing(), backend="aot_eager") for _ in range(3)), Asking())
    pipe = GPipe(net, 4, 8, schedule="1f1b" if way == "step" else "gpipe")
    for N in (16, 24, 27):
        x, y = bench.data(N)
        bench.train(pipe, x, y, bench.mse, way)
    assert net[3].said == {False}


@pytest.mark.parametrize("before", ["nothing", "a plain backward", "gpipe", "1f1b"])
def test_zero_bubble_is_right_whatever_the_layers_have_run_before(before):
    """A compiled backward may reuse the memory of what it has saved, and then it allows no second half."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) for _ in range(2)]
    plain = nn.Sequential(*copy.deepcopy(layers))
    bench.mse(plain(X), Y).backward()
    net = nn.Sequential(*(torch.compile(layer, backend="aot_eager") for layer in layers))
    if before == "a plain backward":
        for layer in net:
            bench.mse(layer(X.clone().requires_grad_()), Y).backward()
    elif before != "nothing":
        GPipe(net, 2, 4, schedule=before, checkpoint="never").step(X, Y, bench.mse)
    net.zero_grad()
    GPipe(net, 2, 4, schedule="zero_bubble", checkpoint="never").step(X, Y, bench.mse)
    for have, want in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(have.grad, want.grad)


def test_the_backward_of_a_compiled_layer_runs_once():
    """It gives all gradients whatever is asked for: in two halves it would be run twice."""
    backwards = []

    def count(graph, example):
        return make_boxed_func(lambda *args: backwards.append(1) or graph.forward(*args))

    backend = aot_autograd(fw_compiler=make_boxed_compiler(lambda graph, _: graph.forward), bw_compiler=count)
    net = nn.Sequential(nn.Linear(4, 4), torch.compile(nn.Linear(4, 4), backend=backend))
    GPipe(net, 2, 4, schedule="zero_bubble", checkpoint="never").step(X, Y, bench.mse)
    assert len(backwards) == 4


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_higher_order_operator_in_a_layer():
    class Attention(nn.Module):
        def forward(self, x):
            parts = x[:, None].float().expand(-1, 2, -1, -1)
            return flex_attention(parts, parts, parts).mean(1).to(x.dtype)

    net, x = nn.Sequential(Attention(), Attention()), torch.randn(4, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(GPipe(net, 2, 2)(x), net(x))


def test_pytorchs_compiler_is_not_loaded_before_somebody_compiles():
    program = """
import sys
import torch
from torch import nn
from gpipe_edu.pytorch import GPipe
net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4), nn.Dropout(0.5))
pipe = GPipe(net, 2, 2, checkpoint="always")
pipe.step(torch.randn(4, 4), torch.randn(4, 4), nn.functional.mse_loss)
print("torch._dynamo" in sys.modules)
"""
    assert printed(program).split() == ["False"]


def test_a_release_that_crashes_is_refused(monkeypatch):
    plain, compiled = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(by_wrapper(nn.Linear(2, 2), "eager"))
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.11.0+cpu"))
    GPipe(plain, 1, 1)
    with pytest.raises(ValueError, match=r"crashes .* with PyTorch 2\.11\.0\+cpu; take PyTorch 2\.12 or newer"):
        GPipe(compiled, 1, 1)
