"""The step in the package's docstring is what the engine does: taken out of it and run, its numbers are the same."""

import copy
import textwrap
from pathlib import Path

import pytest
import torch

import gpipe_edu as ge
from gpipe_edu import pytorch

from . import bench

SCHEDULES = {
    "naive": ge.naive(4, 4),
    "gpipe": ge.gpipe(4, 6),
    "late recompute": ge.gpipe(3, 5, recompute="late"),
    "early recompute": ge.gpipe(3, 5, recompute="early"),
    "1f1b": ge.one_f_one_b(4, 6),
    "interleaved": ge.interleaved(2, 4, 2),
    "one stage": ge.gpipe(1, 1),
}


def from_the_docstring():
    """The function `step`, and its lines."""
    text = textwrap.dedent(pytorch.__doc__.partition("\n")[2].partition("\nThe files named")[0])
    names = {}
    exec(text, names)
    return names["step"], text.partition("def step")[2].rstrip().splitlines()


@pytest.mark.parametrize("N", [24, 7])
@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
def test_it_equals_the_engine_and_plain_pytorch(schedule, N):
    step, _ = from_the_docstring()
    nets = [bench.mlp(6) for _ in range(3)]
    x, y = bench.data(N)
    expected = bench.mse(nets[0](x), y)
    expected.backward()
    pipe = pytorch.GPipe(nets[1], schedule.stages, schedule.micro_batches, schedule=schedule)
    for loss, net in ((pipe.step(x, y, bench.mse), nets[1]), (step(nets[2], x, y, bench.mse, schedule), nets[2])):
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-12, atol=1e-12)
        bench.assert_same(bench.grads(net), bench.grads(nets[0]), tolerance=1e-12)


@pytest.mark.parametrize("kinds", [None, "late", "early"])
def test_what_recomputes_keeps_only_inputs(kinds):
    """Whether the forward of a micro-batch that comes back later leaves a graph, and how often a layer runs."""
    step, _ = from_the_docstring()
    graphs = []
    net = bench.mlp(2)
    net[0].register_forward_hook(lambda layer, given, output: graphs.append(output.requires_grad))
    step(net, *bench.data(6), bench.mse, ge.gpipe(2, 3, recompute=kinds))
    assert graphs == ([True] * 3 if kinds is None else [False] * 3 + [True] * 3)


def test_gradients_are_added_to_those_that_are_there():
    step, _ = from_the_docstring()
    net, (x, y) = bench.mlp(3), bench.data(5)
    plain = copy.deepcopy(net)
    for _ in range(2):
        step(net, x, y, bench.mse, ge.one_f_one_b(2, 3))
        bench.mse(plain(x), y).backward()
    bench.assert_same(bench.grads(net), bench.grads(plain), tolerance=1e-12)


def test_it_fits_one_screen_and_names_files_that_are_there():
    _, lines = from_the_docstring()
    assert len(lines) <= 30
    named = {word.strip("(),.:;") for word in pytorch.__doc__.split() if ".py" in word}
    assert len(named) >= 8
    assert named <= {path.name for path in Path(pytorch.__file__).parent.glob("*.py")}
