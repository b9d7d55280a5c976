"""Which layers draw, and that whatever draws is drawn again by a recompute."""

import inspect
import re
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.randomness import Randomness, may_draw
from tests.each import each

from . import bench

F = nn.functional
CALLS_WHAT_DRAWS = re.compile(
    r"dropout\(|rrelu\(|fractional_max|torch\.rand|bernoulli|multi_head_attention|_VF\.(lstm|gru|rnn_tanh|rnn_relu)\("
)


def test_every_layer_of_pytorch_that_draws_is_known():
    """Read from PyTorch's own source: a layer whose forward calls something that draws."""
    drawing = {
        kind
        for kind in vars(nn).values()
        if inspect.isclass(kind)
        and issubclass(kind, nn.Module)
        and CALLS_WHAT_DRAWS.search(inspect.getsource(kind.forward))
    }
    assert {nn.Dropout, nn.RReLU, nn.AlphaDropout, nn.MultiheadAttention} <= drawing
    for kind in drawing:
        layer = kind.__new__(kind)
        nn.Module.__init__(layer)
        assert may_draw(layer), kind


def test_what_is_known_not_to_draw():
    assert not any(map(may_draw, nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.LayerNorm(2)).modules()))
    assert not may_draw(nn.CrossEntropyLoss())
    assert not may_draw(F.mse_loss)
    assert not may_draw(F.cross_entropy)


def test_what_is_not_known():
    class Own(nn.Linear):
        pass

    hooked, replaced = nn.Linear(2, 2), nn.Linear(2, 2)
    hooked.register_forward_hook(lambda layer, x, out: F.dropout(out))
    replaced.forward = F.dropout
    for what in (Own(2, 2), hooked, replaced, F.dropout, F.gumbel_softmax, lambda out, y: out.sum()):
        assert may_draw(what), what


class Drawing(nn.Module):
    """A linear layer with something that draws."""

    def __init__(self, draw):
        super().__init__()
        self.linear, self.draw = nn.Linear(4, 4), draw

    def forward(self, x):
        return self.draw(self.linear(x))


def sometimes(x):
    """As a dropped block does: the first micro-batch says nothing about the others."""
    return F.dropout(x) if x[0, 0] > 0 else x


WAYS_TO_DRAW = {
    "randn": lambda x: x + torch.randn_like(x),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
    "in place": lambda x: x * torch.empty_like(x).uniform_(),
    "permutation": lambda x: x[:, torch.randperm(4)],
    "multinomial": lambda x: x[:, torch.multinomial(torch.ones(4), 4)],
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5)[0],
    "sometimes": sometimes,
    "twice": lambda x: F.dropout(F.dropout(x, 0.3), 0.3),
}


@each("name", WAYS_TO_DRAW)
def test_a_recompute_draws_the_same(name):
    results = []
    for mode in ("never", "always", "always"):
        torch.manual_seed(0)
        net = nn.Sequential(*(Drawing(WAYS_TO_DRAW[name]) for _ in range(2)))
        torch.manual_seed(1)
        pipe = GPipe(net, 2, 4, checkpoint=mode)
        for _ in range(2):
            pipe.step(*bench.data(8), F.mse_loss)
        results.append(bench.grads(net))
    bench.assert_same(results[1], results[0])
    bench.assert_same(results[2], results[0])


def test_a_loss_that_draws():
    results = []
    for mode in ("never", "always"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        torch.manual_seed(1)
        GPipe(net, 2, 4, checkpoint=mode).step(*bench.data(8), lambda out, y: F.mse_loss(F.dropout(out), y))
        results.append(bench.grads(net))
    bench.assert_same(*results)


def test_no_stream_repeats_another():
    """Not between micro-batches, stages or steps, nor between a layer and the loss after it."""
    drawn = []

    def draw(x):
        drawn.append(torch.rand(()).item())
        return x

    net = nn.Sequential(Drawing(draw), Drawing(draw))
    pipe = GPipe(net, 2, 3, checkpoint="never")
    for _ in range(2):
        pipe.step(*bench.data(6), lambda out, y: F.mse_loss(draw(out), y))
    assert len(set(drawn)) == len(drawn) == 2 * 3 * 3


def test_stages_that_draw_run_at_the_same_time():
    """A lock that is held while a layer runs would take the forwards of a Transformer one by one."""
    net = nn.Sequential(*(nn.Sequential(bench.Sleep(0.02), nn.Dropout(0.1)) for _ in range(3)))
    pipe, (x, y) = GPipe(net, 3, 6, checkpoint="never"), bench.data(12)
    pipe.step(x, y, bench.mse)
    spans = sorted((span.start, span.end) for span in pipe.timeline.spans if span.op.kind == "F")
    assert any(after < end for (_, end), (after, _) in pairwise(spans)), "18 forwards, one by one"


@pytest.mark.parametrize("outer", ["always", "never"])
def test_dropout_in_a_pipe_inside_another(outer):
    """The inner workers must not draw from the one generator in whatever order they come."""

    def run(inner):
        torch.manual_seed(0)
        layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)) for _ in range(2)))
        net = nn.Sequential(nn.Linear(4, 4), GPipe(layers, 2, 4, checkpoint=inner))
        torch.manual_seed(1)
        pipe = GPipe(net, 2, 2, checkpoint=outer)
        for _ in range(2):
            bench.within(lambda: pipe.step(*bench.data(8), bench.mse))
        return bench.grads(net)

    expected = run("never")
    for inner in ("never", "always") * 2:
        bench.assert_same(run(inner), expected)


def test_streams_of_a_pipe_inside_another_do_not_repeat():
    drawn = []

    def draw(x):
        drawn.append(torch.rand(()).item())
        return x

    inner = GPipe(nn.Sequential(Drawing(draw), Drawing(draw)), 2, 2, checkpoint="never")
    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), inner), 2, 3, checkpoint="never")
    for _ in range(2):
        bench.within(lambda: pipe.step(*bench.data(12), bench.mse))
    assert len(set(drawn)) == len(drawn) == 2 * 3 * 4


def test_a_stream_ends_where_it_is_left():
    def seed():
        return Randomness([], None)._seed

    layer, cpu = nn.Dropout(), torch.device("cpu")
    alone = seed()
    with Randomness([layer], None).of(0, 0, cpu)[0]:
        torch.rand(())
        assert seed() != alone
    assert seed() == alone


def test_the_generator_is_as_before_when_a_draw_fails():
    def fail(x):
        return x + torch.randn(-1)

    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="negative dimension"):
        GPipe(nn.Sequential(Drawing(fail), nn.Linear(4, 4)), 2, 2).step(*bench.data(4), bench.mse)
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))  # what the constructors drew
    assert torch.equal(torch.get_rng_state(), after)


class Checkpointed(nn.Module):
    """Dropout inside PyTorch's own recompute, which reads the random state and sets it again in the backward."""

    def __init__(self, reentrant=False):
        super().__init__()
        self.linear, self.reentrant = nn.Linear(4, 4), reentrant

    def forward(self, x):
        return checkpoint(lambda x: F.dropout(self.linear(x)), x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("mode", bench.MODES)
@pytest.mark.parametrize("reentrant", [False, True])
def test_dropout_inside_pytorchs_own_checkpoint(reentrant, mode):
    """Against the same layers without that recompute: the masks are the same, in forward and in backward."""
    results = []
    for kind in (lambda: Drawing(F.dropout), lambda: Checkpointed(reentrant)):
        for schedule in ("gpipe", "zero_bubble") if not reentrant else ("gpipe",):
            torch.manual_seed(0)
            net = nn.Sequential(*(kind() for _ in range(3)))
            torch.manual_seed(1)
            pipe = GPipe(net, 3, 4, checkpoint=mode, schedule=schedule)
            for _ in range(2):
                x, y = bench.data(8)
                pipe.step(x.requires_grad_(reentrant), y, F.mse_loss)
            results.append({name: g for (_, g), name in zip(bench.grads(net).items(), "abcdef", strict=True)})
    for other in results[1:]:
        bench.assert_same(other, results[0])


def seeded(x):
    """Noise that is the same at every call: a fixed projection, say."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return x + torch.rand(4)


def restored(x):
    before = torch.get_rng_state()
    torch.manual_seed(4)
    x = x * torch.rand(4)
    torch.set_rng_state(before)
    return x


@pytest.mark.parametrize("mode", bench.MODES)
@pytest.mark.parametrize("draw", [seeded, restored])
def test_a_layer_that_seeds_for_itself_gives_the_numbers_of_one_device(draw, mode):
    for way in ("step", "transparent"):
        net = nn.Sequential(*(Drawing(draw) for _ in range(3)))
        pipe = bench.compare(net, *bench.data(8), way=way, partitions=3, checkpoint=mode)
        x = bench.data(8)[0]
        torch.testing.assert_close(pipe.eval()(x), net(x))


def test_a_layer_that_seeds_leaves_other_stages_and_the_user_alone():
    torch.manual_seed(7)
    GPipe(nn.Sequential(Drawing(lambda x: x), Drawing(F.dropout)), 2, 4).step(*bench.data(8), F.mse_loss)
    after = torch.rand(3)
    torch.manual_seed(7)
    net = nn.Sequential(Drawing(seeded), Drawing(F.dropout))
    GPipe(net, 2, 4).step(*bench.data(8), F.mse_loss)
    assert torch.equal(torch.rand(3), after)
    assert torch.random.default_generator is torch.default_generator, "outside a step, PyTorch is as it was"


@pytest.mark.parametrize("mode", bench.MODES)
def test_a_generator_of_a_layers_own(mode):
    """It gives again in a recompute what it gave in the forward, and goes on from there as if there had been none."""
    results = []
    for how in ("never", mode):
        torch.manual_seed(0)
        generators = [torch.Generator().manual_seed(k) for k in range(2)]
        draws = [lambda x, g=g: x * torch.rand(4, generator=g) * torch.rand(4, generator=g) for g in generators]
        net = nn.Sequential(*map(Drawing, draws))
        pipe = GPipe(net, 2, 4, checkpoint=how)
        for _ in range(2):
            pipe.step(*bench.data(8), F.mse_loss)
        results.append(bench.grads(net) | {str(k): torch.rand(3, generator=g) for k, g in enumerate(generators)})
    bench.assert_same(*results)


def test_the_default_device_is_not_where_the_seeds_come_from():
    """`torch.set_default_device("cuda")`, say: every step has masks of its own."""
    x, y = bench.data(8)
    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 4)), 2, 2)
    found = []
    for _ in range(2):
        pipe.zero_grad()
        with torch.device("meta"):  # whose draws leave the CPU's generator alone
            pipe.step(x, y, bench.mse)
        found.append(pipe[2].weight.grad.clone())
    assert not torch.equal(*found)
