"""What people do with a module besides training it whole: the pipe does what plain PyTorch does."""

import copy

import pytest

from . import bench

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402

from gpipe_edu.pytorch import GPipe  # noqa: E402

pytestmark = pytest.mark.usefixtures("float64")

every_mode = pytest.mark.parametrize("mode", bench.MODES)


@every_mode
def test_what_stands_in_front_of_a_frozen_pipe_in_eval_mode_learns(mode):
    net, front, (x, y) = bench.mlp().requires_grad_(False).eval(), nn.Linear(4, 4), bench.data(7)
    plain_front = copy.deepcopy(front)
    bench.mse(net(plain_front(x)), y).backward()
    pipe = GPipe(net, 2, 3, checkpoint=mode)
    bench.mse(pipe(front(x)), y).backward()
    bench.assert_same(bench.grads(front), bench.grads(plain_front))
    bench.mse(pipe(front(x)), y).backward()
    assert {span.op.kind for span in pipe.timeline.spans} == {"F", "B"}, "evaluation recomputes nothing"
    assert not pipe(x).requires_grad, "nothing in it requires a gradient"


@every_mode
def test_step_and_forward_agree_in_eval_mode(mode):
    x, y = bench.data(7)
    for options in bench.variants(2, 3):
        if options.get("checkpoint") in (mode, None):
            for way in ("step", "transparent"):
                pipe = bench.compare(bench.mlp().eval(), x, y, way=way, **options)
                assert not {span.op.kind for span in pipe.timeline.spans} & set("RC")
