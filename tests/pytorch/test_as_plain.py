"""What people do with a module besides training it whole: the pipe does what plain PyTorch does."""

import copy

import pytest

from . import bench

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402

from gpipe_edu.pytorch import GPipe  # noqa: E402

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


def backward_to_input(loss, x, weights):
    return [torch.autograd.grad(loss, x)[0]]


def backward_to_some(loss, x, weights):
    return torch.autograd.grad(loss, [weights[-1], x, weights[0]])


def backward_with_inputs(loss, x, weights):
    loss.backward(inputs=[weights[0], x])
    return [weights[0].grad, x.grad]


@every_mode
@pytest.mark.parametrize("ask", [backward_to_input, backward_to_some, backward_with_inputs])
def test_asking_for_some_gradients_fills_no_other(ask, mode):
    net, (x, y) = bench.mlp(), bench.data(7)
    plain, results = copy.deepcopy(net), []
    for model in (plain, GPipe(net, 2, 3, checkpoint=mode)):
        leaf, weights = x.clone().requires_grad_(), list(model.parameters())
        results.append(ask(bench.mse(model(leaf), y), leaf, weights))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    bench.assert_same(bench.grads(net), bench.grads(plain))


@every_mode
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_hooks_on_weights_are_called_once_per_backward_with_the_whole_gradient(way, mode):
    net, (x, y) = bench.mlp(), bench.data(7)
    plain = copy.deepcopy(net)
    called = {}
    for model in (plain, net):
        calls = called.setdefault(model, [])
        model[0].weight.register_hook(lambda g, calls=calls: calls.append(("hook", g.clone())))
        model[2].weight.register_hook(lambda g: g * 2)
        model[0].weight.register_post_accumulate_grad_hook(
            lambda p, calls=calls: calls.append(("after", p.grad.clone()))
        )
        node = model[4].weight.expand_as(model[4].weight).grad_fn.next_functions[0][0]
        node.register_hook(lambda *_, calls=calls: calls.append(("node", torch.zeros(()))))
        model.node = node
    bench.mse(plain(x), y).backward()
    pipe = GPipe(net, 2, 3, checkpoint=mode)
    bench.train(pipe, x, y, bench.mse, way)
    assert sorted(name for name, _ in called[net]) == sorted(name for name, _ in called[plain])
    for name, value in called[net]:
        torch.testing.assert_close(value, dict(called[plain])[name], rtol=1e-10, atol=1e-10)
    bench.assert_same(bench.grads(net), bench.grads(plain))


@pytest.mark.parametrize("way", ["step", "transparent"])
def test_an_optimizer_that_steps_in_backward(way):
    net = bench.mlp()
    plain = copy.deepcopy(net)
    for model in (plain, net):
        for weight in model.parameters():
            optimizer = torch.optim.SGD([weight], 0.1, momentum=0.9)

            def update(p, optimizer=optimizer):
                optimizer.step()
                optimizer.zero_grad()

            weight.register_post_accumulate_grad_hook(update)
    pipe = GPipe(net, 2, 3, schedule="zero_bubble")
    for step in range(3):
        x, y = bench.data(7, seed=step)
        bench.mse(plain(x), y).backward()
        bench.train(pipe, x, y, bench.mse, way)
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@every_mode
def test_other_weights_under_functional_call(mode):
    """Also when they were computed from others, and when they are gone before the backward recomputes."""
    net, (x, y) = bench.mlp(), bench.data(7)
    pipe, results = GPipe(copy.deepcopy(net), 2, 3, checkpoint=mode), []
    for model in (net, pipe):
        scale = torch.tensor(2.0, requires_grad=True)
        others = {name: weight.detach() * scale for name, weight in model.named_parameters()}
        loss = bench.mse(torch.func.functional_call(model, others, (x,)), y)
        loss.backward()
        results.append((loss.detach(), scale.grad))
        assert all(weight.grad is None for weight in model.parameters())
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-10)
    bench.compare(net, x, y, checkpoint=mode)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_layers(kind):
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = kind(4, 4, batch_first=True)

        def forward(self, x):
            return self.cell(x[:, None])[0][:, -1]

    for way in ("step", "transparent"):
        bench.compare(nn.Sequential(Last(), Last()), *bench.data(7), way=way, steps=2, checkpoint="always")


class Noted(nn.Parameter):
    """A kind of parameter of somebody's own."""


@every_mode
def test_a_layer_sees_its_parameters_with_all_that_is_noted_on_them(mode):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Noted(torch.randn(4, 4))
            self.weight.scale = 3.0

        def forward(self, x):
            assert type(self.weight) is Noted
            assert isinstance(self.weight, nn.Parameter)
            return x @ self.weight * self.weight.scale

    for way in ("step", "transparent"):
        net = nn.Sequential(Scaled(), nn.Tanh(), Scaled())
        plain = copy.deepcopy(net)
        plain[0].weight.scale = plain[2].weight.scale = 3.0  # which a copy leaves out
        x, y = bench.data(7)
        bench.mse(plain(x), y).backward()
        bench.train(GPipe(net, 2, 3, checkpoint=mode), x, y, bench.mse, way)
        bench.assert_same(bench.grads(net), bench.grads(plain))


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@every_mode
def test_scripted_layers(mode):
    x, y = bench.data(7)
    for way in ("step", "transparent"):
        plain = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
        net = nn.Sequential(*(torch.jit.script(copy.deepcopy(layer)) for layer in plain))
        bench.mse(plain(x), y).backward()
        bench.train(GPipe(net, 2, 3, checkpoint=mode), x, y, bench.mse, way)
        bench.assert_same(bench.grads(net), bench.grads(plain))


@every_mode
def test_complex_layers(mode):
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, dtype=torch.complex128))

        def forward(self, x):
            return torch.tanh(x.to(torch.complex128) @ self.weight)

    def energy(output, target):
        return (output - target).abs().square().mean()

    for way in ("step", "transparent"):
        for schedule in ("gpipe", "zero_bubble"):
            net = nn.Sequential(Complex(), Complex())
            bench.compare(net, *bench.data(7), energy, way=way, schedule=schedule, checkpoint=mode)


@every_mode
@pytest.mark.parametrize("way", ["step", "transparent"])
def test_sparse_gradients_stay_sparse(way, mode):
    net = nn.Sequential(nn.Embedding(11, 4, sparse=True), nn.Linear(4, 4), nn.Tanh())
    plain, (x, y) = copy.deepcopy(net), (torch.randint(0, 11, (7,)), bench.data(7)[1])
    for _ in range(2):
        bench.mse(plain(x), y).backward()
        bench.train(GPipe(net, 2, 3, checkpoint=mode), x, y, bench.mse, way)
    for ours, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert ours.grad.is_sparse == theirs.grad.is_sparse
        torch.testing.assert_close(ours.grad.to_dense(), theirs.grad.to_dense(), rtol=1e-10, atol=1e-10)


class Stateful(nn.Module):
    """Recurrent, and hands its state on as a tuple."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(4, 4, batch_first=True)

    def forward(self, given):
        x, *state = given if isinstance(given, tuple) else (given,)
        out, (h, c) = self.cell(x, tuple(part.transpose(0, 1).contiguous() for part in state) or None)
        return out, h.transpose(0, 1), c.transpose(0, 1)


@every_mode
def test_a_state_that_travels_with_the_samples(mode):
    torch.manual_seed(0)
    x, y = torch.randn(2, 7, 3, 4).unbind()
    for way in ("step", "transparent"):
        net = nn.Sequential(Stateful(), Stateful(), Stateful())
        bench.compare(net, x, y, lambda out, y: bench.mse(out[0], y), way=way, partitions=3, checkpoint=mode)


@every_mode
def test_hooks_on_modules_of_every_kind(mode):
    def doubled(module, args):
        return (args[0] * 2,)

    def shifted(module, args, kwargs, output):
        return output + 1

    def scaled(module, into, out):
        return (into[0] * 5,)

    def weighted(module, out):
        return (out[0] * 3,)

    for way in ("step", "transparent"):
        net = bench.mlp()
        net[0].register_forward_pre_hook(doubled)
        net[2].register_forward_hook(shifted, with_kwargs=True)
        net[4].register_full_backward_hook(scaled)
        net[6].register_full_backward_pre_hook(weighted)
        bench.compare(net, *bench.data(7), way=way, checkpoint=mode)


@pytest.mark.parametrize("name", ["weight_norm", "orthogonal", "spectral_norm"])
@every_mode
def test_parametrizations(name, mode):
    parametrized = getattr(nn.utils.parametrizations, name)
    for way in ("step", "transparent"):
        torch.manual_seed(0)
        net = nn.Sequential(parametrized(nn.Linear(4, 4)), nn.Tanh(), parametrized(nn.Linear(4, 4)))
        bench.compare(net.eval(), *bench.data(7), way=way)  # in training, spectral norm moves with every micro-batch
        if name != "spectral_norm":
            net.zero_grad()
            bench.compare(net.train(), *bench.data(7), way=way, checkpoint=mode)
