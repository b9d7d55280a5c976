"""Under torch.compile a pipe trains as plain PyTorch does, whatever is compiled around it."""

import copy
import re
import shutil
import sysconfig
from pathlib import Path

import pytest

from . import bench

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402

from gpipe_edu.pytorch import GPipe  # noqa: E402

HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"

# PyTorch warns itself, and then hides it, where a graph begins with what a call outside of graphs has returned.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


@pytest.fixture(autouse=True)
def compiles_anew():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Model(nn.Module):
    """A pipe or a net between layers that are not in it; each method is a step of training, to be compiled."""

    def __init__(self, net):
        super().__init__()
        torch.manual_seed(2)
        self.front, self.net = nn.Linear(4, 4), net

    def transparent(self, x, y):
        outputs = torch.sin(self.net(torch.tanh(self.front(x))) * 2)
        loss = bench.mse(outputs, y)
        loss.backward()
        return loss.detach(), outputs.detach()

    def step(self, x, y):
        def loss_fn(output, target):
            return bench.mse(torch.sin(output * 2), target)

        loss, outputs = self.net.step(torch.tanh(self.front(x)), y, loss_fn, return_outputs=True)
        return loss, torch.sin(outputs * 2)


def trained(model, step):
    """Losses, outputs, gradients and weights of four steps with momentum, the last but one in eval mode."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = []
    for number, samples in enumerate((8, 7, 8, 3)):
        model.train(number != 2)
        optimizer.zero_grad()
        found += step(model, *bench.data(samples, seed=samples))
        optimizer.step()
        found += [*bench.grads(model).values(), *(weight.detach().clone() for weight in model.parameters())]
    return found


def assert_equal(found, expected, about=""):
    for have, want in zip(found, expected, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-10, atol=1e-10, msg=lambda message: f"{about}: {message}")


@bench.every_way
def test_a_compiled_step_around_a_pipe_trains_as_plain_pytorch(way):
    net = bench.mlp(norm=True)
    expected = trained(Model(copy.deepcopy(net)), Model.transparent)
    step = torch.compile(getattr(Model, way), backend="eager")
    for options in bench.variants(2, 4):
        assert_equal(trained(Model(GPipe(copy.deepcopy(net), **options)), step), expected, options)


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # inductor calls it itself
@pytest.mark.parametrize(
    ("backend", "options"),
    # One kernel for all sizes, and no asking what the processor can: g++ takes seconds for each.
    [("aot_eager", {}), ("inductor", {"dynamic": True, "options": {"cpp.vec_isa_ok": False}})],
    ids=["aot_eager", "inductor"],
)
@bench.every_way
def test_gradients_go_on_to_what_is_compiled_in_front(way, backend, options):
    if backend == "inductor" and not (shutil.which("g++") and HEADER.exists()):
        pytest.skip(f"PyTorch's inductor compiles C++, and there is no g++ or no {HEADER} (Debian: python3-dev)")
    net = bench.mlp()
    expected = trained(Model(copy.deepcopy(net)), Model.transparent)
    step = torch.compile(getattr(Model, way), backend=backend, **options)
    assert_equal(trained(Model(GPipe(net, 2, 4, schedule="1f1b")), step), expected)


def by_wrapper(pipe):
    return torch.compile(pipe, backend="eager")


def by_method(pipe):
    pipe.compile(backend="eager")
    return pipe


every_compiled = pytest.mark.parametrize("compiled", [by_wrapper, by_method])


@pytest.mark.slow
@pytest.mark.sweep
@every_compiled
@pytest.mark.parametrize("mode", bench.MODES)
def test_a_compiled_pipe_is_the_net(compiled, mode):
    plain = bench.mlp(norm=True)
    pipe = GPipe(copy.deepcopy(plain), 2, 4, checkpoint=mode)
    found = trained(Model(compiled(pipe)), Model.transparent)
    assert_equal(found, trained(Model(plain), Model.transparent))
    assert list(pipe.state_dict()) == list(plain.state_dict())
    with torch.no_grad():
        x, _ = bench.data(5)
        assert_equal([compiled(pipe)(x)], [plain(x)])
    assert pipe.timeline.measured


def test_a_copy_of_a_compiled_pipe_is_not_that_pipe():
    pipe = by_method(GPipe(bench.mlp(), 2, 2))
    x, _ = bench.data(4)
    before = pipe(x)
    other = copy.deepcopy(pipe)
    with torch.no_grad():
        other[0].weight.zero_()
    assert not torch.equal(other(x), before)
    assert torch.equal(pipe(x), before)


class Asking(nn.Module):
    def __init__(self, said):
        super().__init__()
        self.said = said

    def forward(self, x):
        self.said.append(torch.compiler.is_compiling())
        return x * 1


def test_no_stage_is_told_that_something_compiles():
    said = []
    net = nn.Sequential(nn.Linear(4, 4), Asking(said), nn.Linear(4, 4), Asking(said))
    torch.compile(Model.transparent, backend="eager")(Model(GPipe(net, 2, 4, checkpoint="never")), *bench.data(8))
    assert said == [False] * 8


def test_where_the_compiler_gives_up_a_pipe_still_runs_as_it_is():
    """Past its limit of versions PyTorch runs a function as it is, and compiles what that calls."""
    step = torch.compile(Model.step, backend="eager")
    with torch._dynamo.config.patch(recompile_limit=1):
        for schedule in ("gpipe", "1f1b", "zero_bubble"):
            for dtype in (torch.float64, torch.float32):
                net = bench.mlp()
                plain, ours = (Model(layers).to(dtype) for layers in (copy.deepcopy(net), net))
                ours.net = GPipe(net, 2, 4, schedule=schedule)
                batch = [part.to(dtype) for part in bench.data(6)]
                torch.testing.assert_close(step(ours, *batch), plain.transparent(*batch))


WHOLE = {
    "the pipe": lambda pipe, x, y: torch.compile(pipe, fullgraph=True)(x),
    "a function": lambda pipe, x, y: torch.compile(lambda x: pipe(x) * 2, fullgraph=True)(x),
    "step": lambda pipe, x, y: torch.compile(lambda x: pipe.step(x, y, bench.mse), fullgraph=True)(x),
    "torch.export": lambda pipe, x, y: torch.export.export(pipe, (x,), strict=True),
}


@pytest.mark.parametrize("what", WHOLE)
def test_one_graph_of_all_is_refused_in_plain_words(what):
    told = "a GPipe runs its stages on threads"
    with pytest.raises(Exception, match=f"{told}.*leave fullgraph=True out.*{re.escape('pipe.children()')}"):
        WHOLE[what](GPipe(bench.mlp(), 2, 2), *bench.data(4))


def test_a_compiled_loss_counts_targets_that_are_not_ignored():
    net, (x, _) = bench.mlp(), bench.data(8)
    y = torch.tensor([0, -100, -100, 1, 0, 1, 1, -100])
    loss_fn = nn.CrossEntropyLoss()
    expected = loss_fn(net(x), y)
    expected.backward()
    pipe = GPipe(copy.deepcopy(net), 2, 4)
    found = pipe.step(x, y, torch.compile(loss_fn, backend="eager"))
    assert_equal([found, *bench.grads(pipe).values()], [expected.detach(), *bench.grads(net).values()])
