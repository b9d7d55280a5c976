"""What people do with a module besides training it whole: the pipe does what plain PyTorch does."""

import copy

import pytest

from . import bench

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
