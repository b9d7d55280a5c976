"""The engine against plain PyTorch in float64: every schedule, mode, shape and way to train."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
from torch import nn  # noqa: E402

import gpipe_edu as ge  # noqa: E402
from gpipe_edu.pytorch import GPipe  # noqa: E402
from gpipe_edu.schedule.recompute import with_recompute  # noqa: E402

from . import models  # noqa: E402
from .models import LOSS, assert_same, batch  # noqa: E402

NAMES = ("naive", "gpipe", "1f1b", "zero_bubble")
MODES = ("always", "except_last", "never")
WRITTEN = {
    "late": ge.gpipe(3, 4, "late"),
    "early": ge.gpipe(3, 4, "early"),
    "interleaved": ge.interleaved(2, 4, 2),
    "interleaved, recomputed": with_recompute(ge.interleaved(2, 4, 2), "always"),
    "by hand, every way to finish": ge.Schedule.parse("F0 F1 F2 R2 B2 C1 R0 I0 W0\nF0 F1 F2 I2 C1 B0 W2"),
}


def plain(model, x, y, loss=LOSS, steps=1):
    expected = copy.deepcopy(model)
    for _ in range(steps):
        value = loss(expected(x), y)
        value.backward()
    return expected, value.item()


def both_ways(pipe, model, x, y, expected, value):
    assert pipe.step(x, y, LOSS).item() == pytest.approx(value, rel=1e-12)
    assert_same(model, expected)
    model.zero_grad()
    loss = LOSS(pipe(x), y)
    loss.backward()
    assert loss.item() == pytest.approx(value, rel=1e-12)
    assert_same(model, expected)


@pytest.mark.parametrize("checkpoint", MODES)
@pytest.mark.parametrize("schedule", NAMES)
def test_all_shapes_equal_one_device(schedule, checkpoint):
    for K in range(1, 5):
        for M in (1, 2, 3, 5, 9):
            N = 1 + (7 * K + 5 * M) % 17
            model, (x, y) = models.mlp(), batch(N)
            expected, value = plain(model, x, y)
            both_ways(GPipe(model, K, M, schedule=schedule, checkpoint=checkpoint), model, x, y, expected, value)


@pytest.mark.parametrize("N", range(1, 18))
def test_every_batch_size_from_one_on(N):
    model, (x, y) = models.mlp(), batch(N)
    expected, value = plain(model, x, y)
    both_ways(GPipe(model, 3, 5), model, x, y, expected, value)


@pytest.mark.parametrize("name", WRITTEN)
def test_schedules_written_by_hand_run(name):
    schedule, model = WRITTEN[name], models.mlp()
    x, y = batch(11)
    expected, value = plain(model, x, y)
    pipe = GPipe(model, schedule.stages, schedule.micro_batches, schedule=schedule)
    both_ways(pipe, model, x, y, expected, value)


@pytest.mark.parametrize("checkpoint", MODES)
@pytest.mark.parametrize("schedule", NAMES)
@pytest.mark.parametrize("make", [models.with_skips, models.with_tuples, models.with_attention])
def test_skips_tuples_and_attention(make, schedule, checkpoint):
    x, y = batch(7)
    for K in (2, 3, 5):
        model = make()
        expected, value = plain(model, x, y)
        both_ways(GPipe(model, K, 3, schedule=schedule, checkpoint=checkpoint), model, x, y, expected, value)


@pytest.mark.parametrize("frozen", [[0], [2], [4], [0, 2], [2, 4], [0, 4], [0, 2, 4, 6]])
@pytest.mark.parametrize("schedule", ["gpipe", "zero_bubble"])
def test_frozen_weights_get_no_gradient_and_the_others_get_theirs(frozen, schedule):
    x, y = batch(9)
    for checkpoint in ("never", "always"):
        model = models.mlp()
        for index in frozen:
            model[index].requires_grad_(False)
        expected, value = plain(model, x, y)
        both_ways(GPipe(model, 4, 3, schedule=schedule, checkpoint=checkpoint), model, x, y, expected, value)


def test_two_steps_accumulate_into_the_same_tensors():
    model, (x, y) = models.mlp(), batch(10)
    pipe = GPipe(model, 3, 4)
    pipe.step(x, y, LOSS)
    tensors = [weight.grad for weight in model.parameters()]
    pipe.step(x, y, LOSS)
    assert all(weight.grad is tensor for weight, tensor in zip(model.parameters(), tensors, strict=True))
    assert_same(model, plain(model_without_grads(model), x, y, steps=2)[0])


def model_without_grads(model):
    fresh = copy.deepcopy(model)
    fresh.zero_grad()
    return fresh


def test_sum_losses_and_weights_of_ones_own():
    total, (x, y) = nn.CrossEntropyLoss(reduction="sum"), batch(10)
    model = models.mlp()
    expected, value = plain(model, x, y, loss=total)
    assert GPipe(model, 2, 4).step(x, y, total, reduction="sum").item() == pytest.approx(value)
    assert_same(model, expected)
    model = models.mlp()
    GPipe(model, 2, 4).step(x, y, LOSS, reduction=[0.3, 0.3, 0.2, 0.2])
    assert_same(model, plain(models.mlp(), x, y)[0])


@pytest.mark.parametrize("checkpoint", MODES)
def test_the_input_gets_its_gradient(checkpoint):
    model, (x, y) = models.mlp(), batch(8)
    reference = x.clone().requires_grad_()
    LOSS(copy.deepcopy(model)(reference * 2), y).backward()
    pipe = GPipe(model, 3, 4, checkpoint=checkpoint)
    for train in (lambda v: pipe.step(v, y, LOSS), lambda v: LOSS(pipe(v), y).backward()):
        leaf = x.clone().requires_grad_()
        train(leaf * 2)
        assert torch.allclose(leaf.grad, reference.grad, rtol=1e-10)


def test_two_forwards_before_one_backward():
    model, (x, y) = models.mlp(), batch(8)
    pipe, expected = GPipe(model, 2, 3), copy.deepcopy(model)
    (LOSS(pipe(x), y) + LOSS(pipe(2 * x), y)).backward()
    (LOSS(expected(x), y) + LOSS(expected(2 * x), y)).backward()
    assert_same(model, expected)


def test_repeated_runs_are_equal_to_the_last_bit():
    x, y = batch(13)
    found = []
    for _ in range(3):
        model = nn.Sequential(*models.mlp(), nn.Dropout(0.3)).double()
        torch.manual_seed(5)
        loss = GPipe(model, 4, 5, schedule="1f1b").step(x, y, LOSS)
        found.append([loss, *(weight.grad for weight in model.parameters() if weight.grad is not None)])
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_autocast_is_carried_into_the_workers():
    kinds = []

    class Watch(nn.Module):
        def forward(self, x):
            kinds.append(x.dtype)
            return x

    model = nn.Sequential(nn.Linear(6, 6), Watch(), nn.Linear(6, 3))
    x, y = batch(8)
    with torch.autocast("cpu", torch.bfloat16):
        GPipe(model, 2, 2, checkpoint="always").step(x.float(), y, LOSS)
    assert set(kinds) == {torch.bfloat16}
    assert len(kinds) == 4


def test_no_grad_builds_no_graph_and_evaluation_recomputes_nothing():
    model, (x, _) = models.mlp(), batch(8)
    pipe = GPipe(model, 3, 4, checkpoint="always")
    expected = copy.deepcopy(model)(x)
    with torch.no_grad():
        output = pipe(x)
    assert not output.requires_grad
    assert torch.allclose(output, expected, rtol=1e-12)
    assert {span.op.kind for span in pipe.timeline.spans} == {"F"}
    LOSS(pipe.eval()(x), torch.zeros(8, dtype=int)).backward()
    assert {span.op.kind for span in pipe.timeline.spans} == {"F", "B"}


def test_state_dict_training_mode_and_copies_are_those_of_the_model():
    model, (x, y) = models.mlp(), batch(8)
    keys = list(model.state_dict())
    pipe = GPipe(model, 3, 4)
    assert list(pipe.state_dict()) == keys
    assert [name for name, _ in pipe.named_parameters()] == keys
    pipe.step(x, y, LOSS)
    pipe.eval()
    assert not any(layer.training for layer in model)
    twin = copy.deepcopy(pipe)
    twin.train().step(x, y, LOSS)
    other = GPipe(models.mlp(), 2, 2)
    other.load_state_dict(pipe.state_dict())
    assert all(map(torch.equal, other.state_dict().values(), pipe.state_dict().values()))
