"""The pipeline as a module: it has the keys, the weights, the modes and the copies that its model has."""

import copy
import gc
import io
import weakref

import pytest
import torch
from torch import nn

from gpipe_edu.pytorch import GPipe

from . import bench


def test_state_dict_and_parameters_are_those_of_the_model():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Tanh()), nn.Linear(4, 4))
    plain = copy.deepcopy(net)
    pipe = GPipe(net, 2, 2)
    assert list(pipe.state_dict()) == list(plain.state_dict())
    assert [name for name, _ in pipe.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert [id(p) for p in pipe.parameters()] == [id(p) for p in net.parameters()]
    assert [name for name, _ in pipe.named_buffers()] == [name for name, _ in plain.named_buffers()]
    other = copy.deepcopy(plain)
    nn.init.ones_(other[0].weight)
    pipe.load_state_dict(other.state_dict())
    assert torch.equal(net[0].weight, torch.ones(4, 4))
    plain.load_state_dict(pipe.state_dict())
    assert torch.equal(plain[0].weight, torch.ones(4, 4))


def test_names_of_an_ordered_model_stay():
    from collections import OrderedDict

    net = nn.Sequential(OrderedDict(first=nn.Linear(4, 4), second=nn.Linear(4, 4)))
    assert set(GPipe(net, 2, 2).state_dict()) == {"first.weight", "first.bias", "second.weight", "second.bias"}


def test_train_and_eval_reach_every_layer():
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Dropout(0.5)))
    pipe = GPipe(net, 2, 2)
    pipe.eval()
    assert not any(module.training for module in net.modules() if module is not net)
    pipe.train()
    assert all(module.training for module in net.modules())


def test_a_model_in_eval_mode_makes_a_pipe_in_eval_mode():
    pipe = GPipe(bench.mlp().eval(), 2, 2)
    assert not pipe.training
    pipe(bench.data(4)[0]).sum().backward()
    assert not {span.op.kind for span in pipe.timeline.spans} & set("RC")


def test_only_no_grad_builds_no_graph_and_all_modes_equal_plain_torch():
    net, (x, _) = bench.mlp(), bench.data(7)
    expected = net(x)
    pipe = GPipe(net, 2, 3)
    assert pipe(x).requires_grad
    with torch.no_grad():
        assert not pipe(x).requires_grad
        torch.testing.assert_close(pipe(x), expected.detach())
    pipe.eval()
    assert pipe(x).requires_grad
    torch.testing.assert_close(pipe(x), expected)
    with torch.no_grad():
        assert not pipe(x.clone().requires_grad_()).requires_grad
    with torch.inference_mode():
        torch.testing.assert_close(pipe(x * 1), expected.detach())


def test_grad_mode_inside_layers():
    modes = []

    class Look(nn.Module):
        def forward(self, x):
            modes.append(torch.is_grad_enabled())
            return x

    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), Look(), nn.Linear(4, 4), Look()), 2, 2, checkpoint="never")
    x, y = bench.data(4)
    pipe.step(x, y, bench.mse)
    assert set(modes) == {True}
    modes.clear()
    with torch.no_grad():
        pipe(x)
    assert set(modes) == {False}
    assert torch.is_grad_enabled()


@bench.every_way
@pytest.mark.parametrize("make", [lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.AdamW(p)])
def test_an_optimizer_trains_as_on_one_device(make, way):
    net = bench.mlp()
    plain = copy.deepcopy(net)
    pipe = GPipe(net, 2, 3)
    ours, theirs = make(pipe.parameters()), make(plain.parameters())
    for step in range(5):
        x, y = bench.data(7, seed=step)
        theirs.zero_grad()
        bench.mse(plain(x), y).backward()
        theirs.step()
        ours.zero_grad()
        bench.train(pipe, x, y, bench.mse, way)
        ours.step()
    for a, b in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_deep_copy_is_a_pipe_of_its_own():
    x, y = bench.data(7)
    for options in bench.variants(2, 3):
        net = bench.mlp()
        pipe = GPipe(net, **options)
        pipe.step(x, y, bench.mse)
        twin = copy.deepcopy(pipe)
        assert all(a is not b for a, b in zip(pipe.parameters(), twin.parameters(), strict=True))
        with torch.no_grad():
            for weight in pipe.parameters():
                weight.zero_()
        twin.zero_grad()
        twin.step(x, y, bench.mse)
        plain = bench.mlp()
        bench.mse(plain(x), y).backward()
        bench.assert_same(bench.grads(twin), bench.grads(plain))


def test_saving_and_loading():
    pipe, (x, _) = GPipe(bench.mlp(), 2, 2), bench.data(4)
    expected = pipe.eval()(x)
    file = io.BytesIO()
    torch.save(pipe.state_dict(), file)
    file.seek(0)
    other = bench.mlp(seed=9)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other(x), expected.detach())
    file = io.BytesIO()
    torch.save(pipe, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file, weights_only=False)(x), expected)


def test_a_pipe_that_moves_to_another_type():
    net = bench.mlp()
    pipe = GPipe(net, 2, 2).float()
    x, y = (part.float() for part in bench.data(4))
    assert pipe.step(x, y, bench.mse).dtype == torch.float32
    assert net[0].weight.grad.dtype == torch.float32


def test_a_shorter_last_batch_and_then_a_full_one():
    net = bench.mlp()
    plain, pipe = copy.deepcopy(net), GPipe(net, 2, 6)
    for N in (12, 3, 1, 12, 7):
        x, y = bench.data(N)
        bench.mse(plain(x), y).backward()
        pipe.step(x, y, bench.mse)
    bench.assert_same(bench.grads(net), bench.grads(plain))


def test_grad_tensors_are_added_into_not_exchanged():
    net, (x, y) = bench.mlp(), bench.data(7)
    pipe = GPipe(net, 2, 3)
    for way in bench.WAYS:
        bench.train(pipe, x, y, bench.mse, way)
        held = [p.grad for p in net.parameters()]
        bench.train(pipe, x, y, bench.mse, way)
        assert all(p.grad is grad for p, grad in zip(net.parameters(), held, strict=True))


def test_the_result_of_a_step_is_a_plain_number():
    loss = GPipe(bench.mlp(), 2, 3).step(*bench.data(7), bench.mse)
    assert loss.shape == ()
    assert not loss.requires_grad


def test_a_dropped_pipe_frees_its_weights():
    pipe = GPipe(bench.mlp(), 2, 2)
    pipe.step(*bench.data(4), bench.mse)
    weight = weakref.ref(next(pipe.parameters()))
    del pipe
    gc.collect()
    assert weight() is None


def test_the_backward_of_a_pipe_in_the_thread_of_autograd(monkeypatch):
    """The way that CUDA takes, run on the CPU: the same gradients, and the same errors."""
    run = pytest.importorskip("gpipe_edu.pytorch.mini_batch")
    monkeypatch.setattr(run, "CudaPlace", run.Place)
    for options in bench.variants(2, 3):
        bench.compare(bench.mlp(), *bench.data(7), way="transparent", steps=2, **options)


def test_what_a_pipe_says_of_itself():
    net = bench.mlp()
    pipe = GPipe(net, balance=[3, 5], micro_batches=4, devices=["cpu"])
    assert (pipe.balance, pipe.micro_batches, pipe.checkpoint) == ((3, 5), 4, "except_last")
    assert pipe.devices == (torch.device("cpu"),) * 2
    assert pipe.schedule.stages == 2
    assert len(pipe) == len(net)
    assert all(ours is theirs for ours, theirs in zip(pipe, net, strict=True))
    assert pipe[-1] is net[-1]
    written = bench.ge.one_f_one_b(2, 4)
    assert GPipe(net, 2, 4, schedule=written).checkpoint is None


def test_tools_that_look_at_every_attribute_find_nothing_measured_yet():
    pipe = GPipe(bench.mlp(), 2, 2)
    assert not hasattr(pipe, "timeline")
    pipe.step(*bench.data(4), bench.mse)
    assert hasattr(pipe, "timeline")
    with pytest.raises(AttributeError, match="no attribute 'timelime'"):
        _ = pipe.timelime


@pytest.mark.parametrize("N", [8, 7, 2])
def test_step_returns_the_outputs_too(N):
    """Joined, detached, and the same as plain PyTorch's, for every schedule; the loss and gradients do not change."""
    x, y = bench.data(N)
    for options in bench.variants(2, 4):
        net = bench.mlp()
        plain = copy.deepcopy(net)
        expected = plain(x)
        bench.mse(expected, y).backward()
        loss, outputs = GPipe(net, **options).step(x, y, bench.mse, return_outputs=True)
        torch.testing.assert_close(outputs, expected.detach(), rtol=1e-10, atol=1e-10)
        assert not outputs.requires_grad
        torch.testing.assert_close(loss, bench.mse(expected, y).detach(), rtol=1e-10, atol=1e-10)
        bench.assert_same(bench.grads(net), bench.grads(plain))


def test_step_returns_a_tuple_of_outputs_as_one():
    class Both(nn.Module):
        def forward(self, x):
            return x, x.argmax(1)

    x, y = bench.data(7)
    net = bench.mlp().append(Both())
    loss, (out, best) = GPipe(net, 2, 3).step(x, y, lambda o, y: bench.mse(o[0], y), return_outputs=True)
    assert torch.equal(best, out.argmax(1))
    assert out.shape == (7, 4)
    assert loss.dim() == 0


def test_outputs_without_samples_are_refused_and_leave_the_gradients_as_they_were():
    class Sum(nn.Module):
        def forward(self, x):
            return x.sum()

    x, y = bench.data(8)
    pipe = GPipe(bench.mlp().append(Sum()), 2, 4)
    with pytest.raises(ValueError, match="sample by sample"):
        pipe.step(x, y, lambda o, y: o, return_outputs=True)
    assert all(weight.grad is None for weight in pipe.parameters())
    pipe.step(x, y, lambda o, y: o)
