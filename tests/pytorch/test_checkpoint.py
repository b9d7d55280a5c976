"""Re-materialization: how often a layer runs, and what random numbers it sees."""

import copy

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe
from tests.processes import printed

from . import bench

pytestmark = pytest.mark.slow


class Reading(nn.Module):
    """Notes the dropout mask of every call, with the number of the micro-batch that its input carries."""

    def __init__(self):
        super().__init__()
        self.masks = []

    def forward(self, x):
        mask = nn.functional.dropout(torch.ones_like(x), 0.5, self.training)
        self.masks.append(mask)
        return x * mask


def noisy(stages=3):
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), Reading()) for _ in range(stages)))


@bench.every_way
def test_calls_per_layer(way):
    for N in (2, 3, 7, 8):
        for options in bench.variants(2, 4):
            stages = options["partitions"]
            net = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), bench.Counter()) for _ in range(stages)))
            pipe = GPipe(net, **options)
            M = min(N, 4)
            bench.train(pipe, *bench.data(N), bench.mse, way)
            again = [0] * stages
            for row in pipe.schedule.rows:
                for kind, m, k in row:
                    again[k] += kind in "RC" and m < M
            if options.get("checkpoint") == "except_last":
                again = [M - 1] * stages
            calls = [layer[1].calls for layer in net]
            assert calls == [M + more for more in again], (N, options)
            pipe.eval()(bench.data(N)[0])
            assert [layer[1].calls for layer in net] == [had + M for had in calls]
            with torch.no_grad():
                pipe.train()(bench.data(N)[0])
            assert [layer[1].calls for layer in net] == [had + 2 * M for had in calls]


@bench.every_way
def test_dropout_gradients_do_not_depend_on_what_is_recomputed(way):
    first = None
    for options in [o for o in bench.variants(2, 3) if o["partitions"] == 2]:
        net = noisy(2)
        pipe = GPipe(net, **options)
        torch.manual_seed(5)
        for _ in range(2):
            bench.train(pipe, *bench.data(7), bench.mse, way)
        first = first or bench.grads(net)
        bench.assert_same(bench.grads(net), first, tolerance=1e-12)


@bench.every_way
def test_masks_are_drawn_again_by_a_recompute_and_differ_everywhere_else(way):
    net = noisy()
    pipe = GPipe(net, 3, 3, checkpoint="always")
    seen = []
    for _ in range(2):
        bench.train(pipe, torch.randn(60, 4), torch.randn(60, 4), bench.mse, way)
        for layer in net:
            forwards, again = layer[1].masks[:3], layer[1].masks[3:]
            assert len(again) == 3
            for mask in again:
                assert sum(torch.equal(mask, other) for other in forwards) == 1
            seen += forwards
            layer[1].masks.clear()
    assert not any(torch.equal(a, b) for i, a in enumerate(seen) for b in seen[:i])
    assert 0.3 < float((torch.cat(seen) > 0).double().mean()) < 0.7


@bench.every_way
def test_the_seed_rules_the_masks_and_the_generator_afterwards(way):
    def run(seed):
        net = noisy()
        torch.manual_seed(seed)
        bench.train(GPipe(net, 3, 3), *bench.data(7), bench.mse, way)
        return torch.cat([mask.flatten() for layer in net for mask in layer[1].masks[:3]]), torch.rand(3)

    (masks, after), (masks2, after2), (masks3, _) = run(1), run(1), run(2)
    assert torch.equal(masks, masks2)
    assert torch.equal(after, after2)
    assert not torch.equal(masks, masks3)


def test_evaluation_draws_no_random_number():
    pipe = GPipe(bench.mlp(), 2, 2).eval()
    before = torch.get_rng_state()
    pipe(bench.data(4)[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_pipe_inside_another():
    """A teacher that is a pipe, called by the loss function; or a layer that is one."""
    script = printed(
        """
        import copy, torch
        from torch import nn
        from gpipe_edu.pytorch import GPipe
        mse, x, y = nn.functional.mse_loss, torch.randn(8, 4), torch.randn(8, 4)
        teacher = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        inner = GPipe(copy.deepcopy(teacher), 2, 2)
        loss = GPipe(copy.deepcopy(net), 2, 2).step(x, y, lambda out, y: mse(out, inner.eval()(y)))
        assert torch.allclose(loss, mse(net(x), teacher(y)))
        loss = GPipe(nn.Sequential(copy.deepcopy(net), inner.train()), 2, 2).step(x, y, mse)
        assert torch.allclose(loss, mse(teacher(net(x)), y))
        print("right")
    """
    )
    assert script == "right\n"


class HookedInput(nn.Module):
    """Doubles the gradient of its input by a hook, where that has one."""

    def forward(self, x):
        if x.requires_grad:
            x.register_hook(lambda gradient: 2 * gradient)
        return x


@pytest.mark.parametrize("recompute", ["late", "early", None])
@pytest.mark.parametrize("K", [2, 5])
def test_a_hook_on_the_input_of_a_stage_runs_once_though_its_layers_run_again(K, recompute):
    torch.manual_seed(0)
    net = nn.Sequential(*(layer() for _ in range(3) for layer in (lambda: nn.Linear(4, 4), HookedInput))).double()[:5]
    plain, (x, y) = copy.deepcopy(net), (part.double() for part in bench.data(7))
    bench.mse(plain(x), y).backward()
    GPipe(net, K, 3, schedule=ge.gpipe(K, 3, recompute=recompute)).step(x, y, bench.mse)
    bench.assert_same(bench.grads(net), bench.grads(plain))
