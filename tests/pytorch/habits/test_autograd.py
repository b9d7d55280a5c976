"""What people do with graphs: gradients asked for, kept, watched, computed twice or in odd places."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from gpipe_edu.pytorch import GPipe
from tests.each import each
from tests.processes import PATIENCE
from tests.pytorch.habits.ways import (
    CALLS,
    TRAINS,
    as_plain,
    as_plain_calls,
    batch,
    data,
    error_of,
    held,
    in_pieces_calls,
    mlp,
    seeded,
)

pytestmark = pytest.mark.slow


@as_plain_calls
def test_grad_of_some_weights(way):
    net = mlp()
    loss = way.wrap(net)(batch(6)).pow(2).sum()
    return torch.autograd.grad(loss, [net[2].weight, net[4].bias]), held(net)


@as_plain_calls
def test_grad_of_what_does_not_take_part(way):
    net, other = mlp(), torch.ones(2, requires_grad=True)
    loss = way.wrap(net)(batch(6)).sum()
    return torch.autograd.grad(loss, [other, net[0].weight], allow_unused=True)


@as_plain_calls
def test_grad_made_of_zeros_where_there_is_none(way):
    net, other = mlp(), torch.ones(2, requires_grad=True)
    loss = way.wrap(net)(batch(6)).sum()
    return torch.autograd.grad(loss, [other, net[0].weight], materialize_grads=True)


@as_plain_calls
def test_backward_with_a_gradient_given(way):
    net = mlp()
    way.wrap(net)(batch(6)).backward(batch(3, seed=9))
    return held(net)


@as_plain_calls
def test_backward_of_several_outputs_at_once(way):
    net = mlp()
    model = way.wrap(net)
    torch.autograd.backward([model(batch(6)), model(batch(6, seed=3))], [batch(3), batch(3, seed=4)])
    return held(net)


@as_plain_calls
def test_two_losses_of_one_output(way):
    net = mlp()
    out = way.wrap(net)(batch(6))
    (F.mse_loss(out, batch(3)) + out.abs().mean()).backward()
    return held(net)


@as_plain_calls
def test_forward_that_nobody_goes_back_through(way):
    net = mlp()
    model = way.wrap(net)
    model(batch(6, seed=3))
    model(batch(6)).sum().backward()
    return held(net)


@as_plain_calls
def test_evaluation_between_forward_and_backward(way):
    net = mlp()
    model = way.wrap(net)
    out = model(batch(6))
    with torch.no_grad():
        model.eval()(batch(6, seed=3))
    model.train()
    out.sum().backward()
    return held(net)


@in_pieces_calls
def test_backward_after_a_switch_to_eval_mode(way):
    net = seeded(lambda: nn.Linear(6, 4), lambda: nn.BatchNorm1d(4), lambda: nn.Linear(4, 3))
    model = way.wrap(net)
    loss = model(batch(6)).pow(2).sum()
    model.eval()
    loss.backward()
    return held(net), net[1].training


@as_plain_calls
def test_backward_after_a_switch_to_training_mode(way):
    net = seeded(lambda: nn.Linear(6, 4), lambda: nn.BatchNorm1d(4), lambda: nn.Linear(4, 3))
    model = way.wrap(net).eval()
    loss = model(batch(6)).pow(2).sum()
    model.train()
    loss.backward()
    return held(net), net[1].training


@pytest.mark.parametrize("before", [False, True])
@as_plain_calls
def test_backward_after_weights_were_frozen_or_thawed(way, before):
    net = mlp()
    model = way.wrap(net)
    net[2].requires_grad_(before)
    loss = model(batch(6)).sum()
    net[2].requires_grad_(not before)
    loss.backward()
    return held(net)


@as_plain_calls
def test_model_gone_before_the_backward(way):
    net = mlp()
    out = way.wrap(net)(batch(6))
    gc.collect()
    out.sum().backward()
    return held(net)


@as_plain_calls
def test_backward_in_another_thread(way):
    net = mlp()
    loss = way.wrap(net)(batch(6)).sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join(PATIENCE)
    return held(net)


@as_plain_calls
def test_hooks_on_output_and_input(way):
    seen = []
    x = batch(6).requires_grad_(True)
    x.register_hook(seen.append)
    out = way.wrap(mlp())(x)
    out.register_hook(lambda gradient: gradient * 2)
    out.sum().backward()
    return seen, x.grad


@as_plain_calls
def test_gradient_retained_at_input_and_output(way):
    x = batch(6).requires_grad_(True) * 2
    x.retain_grad()
    out = way.wrap(mlp())(x)
    out.retain_grad()
    out.pow(2).sum().backward()
    return x.grad, out.grad


@as_plain_calls
def test_hook_on_the_node_of_an_output(way):
    net = mlp()
    out = way.wrap(net)(batch(6))
    out.grad_fn.register_prehook(lambda gradients: tuple(g * 2 for g in gradients))
    out.sum().backward()
    return held(net)


@as_plain_calls
def test_hook_on_several_tensors(way):
    seen = []
    net = mlp()
    watched = [net[0].weight, net[4].bias]
    handle = torch.autograd.graph.register_multi_grad_hook(watched, seen.extend)
    way.wrap(net)(batch(6)).sum().backward()
    handle.remove()
    return seen


@as_plain
def test_hook_that_clips_each_gradient(way):
    net = mlp()
    for weight in net.parameters():
        weight.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    way.learn(way.wrap(net), *data())
    return held(net)


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@as_plain_calls
def test_forward_without_gradients(way, mode):
    model = way.wrap(mlp())
    with mode():
        out = model(batch(6))
    return out.clone(), out.requires_grad, out.is_inference()


@as_plain_calls
def test_no_grad_as_a_decorator(way):
    model = way.wrap(mlp())
    return torch.no_grad()(model)(batch(6)).requires_grad


@as_plain_calls
def test_gradients_enabled_inside_no_grad(way):
    net = mlp()
    model = way.wrap(net)
    with torch.no_grad(), torch.enable_grad():
        model(batch(6)).sum().backward()
    return held(net)


@as_plain_calls
def test_training_on_an_output_of_inference_mode(way):
    with torch.inference_mode():
        x = batch(6) * 2
    return error_of(lambda: way.wrap(mlp())(x).sum().backward())


@as_plain_calls
def test_inference_mode_of_a_copy(way):
    net = mlp()
    with torch.inference_mode():
        x = batch(6) * 2
    way.wrap(net)(x.clone()).sum().backward()
    return held(net)


@as_plain
def test_saved_tensors_packed_by_the_user(way):
    net = mlp()
    model = way.wrap(net)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        loss = way.learn(model, *data())
    return loss, held(net)


@as_plain
def test_saved_tensors_offloaded(way):
    net = mlp()
    model = way.wrap(net)
    with torch.autograd.graph.save_on_cpu():
        loss = way.learn(model, *data())
    return loss, held(net)


@pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning")
@as_plain
def test_anomaly_detection(way):
    net = mlp()
    model = way.wrap(net)
    with torch.autograd.detect_anomaly(check_nan=True):
        loss = way.learn(model, *data())
    return loss, held(net)


@pytest.mark.filterwarnings("ignore:Anomaly Detection:UserWarning", "ignore:Error detected:UserWarning")
@as_plain
def test_anomaly_detection_finds_a_nan(way):
    net = mlp()
    net.insert(2, SquareRoot())
    model = way.wrap(net)
    with torch.autograd.detect_anomaly():
        return error_of(lambda: way.learn(model, batch(6) * 0, batch(3)))


class SquareRoot(nn.Module):
    def forward(self, x):
        return (x * 0 - 1).sqrt() * 0 + x


@as_plain_calls
def test_custom_function_around_a_model(way):
    net = mlp()
    model = way.wrap(net)

    class Around(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_(True)
                ctx.out = model(ctx.x)
            return ctx.out.detach()

        @staticmethod
        def backward(ctx, gradient):
            ctx.out.backward(gradient)
            return ctx.x.grad

    x = batch(6).requires_grad_(True)
    Around.apply(x).sum().backward()
    return x.grad, held(net)


@as_plain_calls
def test_functional_call_with_weights_that_are_computed(way):
    net = mlp()
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    weights = {name: weight.detach() * scale for name, weight in net.named_parameters()}
    torch.func.functional_call(way.wrap(net), weights, (batch(6),)).pow(2).sum().backward()
    return scale.grad


@as_plain_calls
def test_functional_call_with_some_weights(way):
    net = mlp()
    model = way.wrap(net)
    torch.func.functional_call(model, {"0.weight": net[0].weight * 3}, batch(6)).sum().backward()
    return held(net)


@as_plain_calls
def test_one_step_of_a_hand_written_optimizer(way):
    net = mlp()
    model = way.wrap(net)
    gradients = torch.autograd.grad(model(batch(6)).pow(2).sum(), list(model.parameters()))
    with torch.no_grad():
        torch._foreach_sub_(list(model.parameters()), gradients, alpha=0.1)
    return held(net)


@as_plain_calls
def test_adversarial_inputs(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    for _ in range(2):
        x = x.detach().requires_grad_(True)
        x = x + 0.1 * torch.autograd.grad(F.mse_loss(model(x), y), x)[0].sign()
    F.mse_loss(model(x.detach()), y).backward()
    return x.detach(), held(net)


@as_plain_calls
def test_input_optimized_instead_of_weights(way):
    model = way.wrap(mlp()).eval().requires_grad_(False)
    x = nn.Parameter(batch(6))
    optimizer = torch.optim.Adam([x], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(x).pow(2).sum().backward()
        optimizer.step()
    return x.detach()


@as_plain_calls
def test_vector_jacobian_product(way):
    return torch.autograd.functional.vjp(way.wrap(mlp()), batch(6), batch(3))


@as_plain_calls
def test_finite_differences(way):
    model = way.wrap(mlp())
    x = batch(6)[:2].requires_grad_(True)
    torch.autograd.grad(model(x).sum(), x)
    return torch.autograd.gradcheck(lambda x: mlp()(x), x)


@as_plain_calls
def test_graph_recorded_by_make_fx(way):
    graph = make_fx(way.wrap(mlp()))(batch(6))
    return graph(batch(6, seed=3))


@as_plain_calls
def test_backward_of_what_has_no_graph(way):
    with torch.no_grad():
        loss = way.wrap(mlp())(batch(6)).sum()
    return error_of(loss.backward)


@as_plain_calls
def test_backward_of_more_than_one_number(way):
    return error_of(way.wrap(mlp())(batch(6)).backward)


@each("way", CALLS)
def test_nothing_is_kept_once_output_and_input_are_gone(way):
    model, x = way.wrap(mlp()), batch(6).requires_grad_(True)
    out = model(x)
    out.sum().backward()
    alive = weakref.ref(x), weakref.ref(out)
    del x, out
    assert [ref() for ref in alive] == [None, None]


@each("way", [way for way in TRAINS if way.steps])
def test_nothing_of_a_step_is_kept(way):
    model, (x, y) = way.wrap(mlp()), data()
    model.step(x, y, F.mse_loss)
    alive = weakref.ref(x), weakref.ref(y)
    del x, y
    assert [ref() for ref in alive] == [None, None]


# What a pipe can't do: (what, the error, its words). Lesson 06 and docs/engine_limits.md say why.
REFUSED = {
    "gradient_penalty": (
        lambda p, x: torch.autograd.grad(p(x).sum(), x, create_graph=True)[0].norm().backward(),
        RuntimeError,
        "create_graph",
    ),
    "hessian": (lambda p, x: torch.autograd.functional.hessian(lambda x: p(x).sum(), x), RuntimeError, "create_graph"),
    "hvp": (lambda p, x: torch.autograd.functional.hvp(lambda x: p(x).sum(), x, x), RuntimeError, "create_graph"),
    "jacobian": (lambda p, x: torch.autograd.functional.jacobian(p, x), RuntimeError, "backward has run already"),
    "gradcheck": (lambda p, x: torch.autograd.gradcheck(p, x), RuntimeError, "backward has run already"),
    "jacrev": (lambda p, x: torch.func.jacrev(p)(x), RuntimeError, "layers without the pipe"),
    "jacfwd": (lambda p, x: torch.func.jacfwd(p)(x), RuntimeError, "layers without the pipe"),
    "jvp": (lambda p, x: torch.func.jvp(p, (x,), (x,)), RuntimeError, "layers without the pipe"),
    "vjp": (lambda p, x: torch.func.vjp(p, x), RuntimeError, "layers without the pipe"),
    "linearize": (lambda p, x: torch.func.linearize(p, x), RuntimeError, "layers without the pipe"),
    "per_sample_gradients": (
        lambda p, x: torch.func.vmap(
            torch.func.grad(lambda w, x: torch.func.functional_call(p, w, x[None]).sum()), (None, 0)
        )(dict(p.named_parameters()), x),
        RuntimeError,
        "layers without the pipe",
    ),
    "step_under_inference_mode": (
        lambda p, x: torch.inference_mode()(p.step)(x, batch(3), F.mse_loss),
        RuntimeError,
        "inference_mode",
    ),
    "jit_script": (lambda p, x: torch.jit.script(p), RuntimeError, "layers without the pipe"),
    "fx": (lambda p, x: torch.fx.symbolic_trace(p), RuntimeError, "layers without the pipe"),
    "fake_tensors": (
        lambda p, x: fake(p, x),
        RuntimeError,
        "layers without the pipe",
    ),
}


def fake(pipe, x):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return pipe(mode.from_tensor(x))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_pipe_refuses(kind):
    do, error, words = REFUSED[kind]
    net = mlp()
    pipe = GPipe(net, 2, 3)
    with pytest.raises(error, match=words):
        do(pipe, batch(6).requires_grad_(True))
    pipe.zero_grad()
    pipe.step(*data(), F.mse_loss)
    expected = mlp()
    F.mse_loss(expected(data()[0]), data()[1]).backward()
    torch.testing.assert_close(net[0].weight.grad, expected[0].weight.grad, rtol=1e-10, atol=1e-12)
