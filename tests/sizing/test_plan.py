"""A plan against closed forms, and against what the PyTorch engine counts."""

from itertools import pairwise

import pytest

import gpipe_edu as ge
from gpipe_edu.sizing import Job, Machine, Plan, mlp, transformer
from gpipe_edu.sizing.model import LayerSize, Model

EVEN = Model("16 equal layers", 8, tuple(LayerSize(f"{index}", 100, 1000, 8, 8) for index in range(16)))
DEVICES = Machine(devices=8, memory=1e6, speed=1000)


@pytest.mark.parametrize("K", [1, 2, 4, 8])
@pytest.mark.parametrize("M", [1, 4, 32])
def test_equal_layers_give_the_closed_forms(K, M):
    N, F = 64, 64 // M * 16 // K  # a second per layer and sample
    never, always = (Plan(Job(EVEN, N, DEVICES), K, M, mode) for mode in ("never", "always"))
    assert never.balance == (16 // K,) * K
    assert never.step == pytest.approx(ge.formulas.makespan(K, M, F, 2 * F))
    assert never.bubble == pytest.approx(ge.formulas.bubble_fraction(K, M))
    # R is put off until the backward that needs it, and its device then has nothing else to do: early recompute.
    assert always.step == pytest.approx(ge.formulas.makespan_early(K, M, F, 2 * F))
    numbers = 64 * 8 * 4  # bytes of one layer's output for the mini-batch
    assert set(never.activations) == {numbers + 16 / K * numbers}
    assert set(always.activations) == {ge.formulas.peak_memory(16, K, M, boundary=numbers, layer=numbers)}
    assert never.state == (16 * 100 * 16 // K,) * K
    assert never.memory == tuple(16 * 100 * 16 / K + held for held in never.activations)


def test_the_largest_micro_batch_sets_time_and_memory():
    ragged, even = (Plan(Job(EVEN, N, DEVICES), 4, 8, "never") for N in (57, 64))  # 8 and 7s, and 8s
    assert (ragged.step, ragged.activations) == (even.step, even.activations)


def test_a_fixed_cost_per_layer_puts_the_best_M_inside_the_range():
    machine = DEVICES._replace(overhead=2)
    steps = [Plan(Job(EVEN, 64, machine), 4, M, "never").step for M in (1, 2, 4, 8, 16, 32, 64)]
    # F = 4 (64/M + 2): M=1: 4*264*3, M=8: 11*40*3, M=16: 19*24*3, M=64: 67*12*3
    assert steps[0] == 4 * 264 * 3
    assert steps[3:5] == [11 * 40 * 3, 19 * 24 * 3]
    assert steps[6] == 67 * 12 * 3
    assert steps.index(min(steps)) == 3


def test_sending_takes_the_bytes_of_the_widest_cut():
    free, slow = (Plan(Job(EVEN, 64, DEVICES._replace(link=link)), 4, 1, "never") for link in (None, 64 * 8 * 4 / 5))
    assert slow.step == free.step + 6 * 5  # three boundaries, there and back
    halved = Plan(Job(EVEN, 64, DEVICES._replace(link=64 * 8 * 4 / 5), activation=2), 4, 1, "never")
    assert halved.step == free.step + 6 * 2.5
    wide = EVEN._replace(layers=(*(layer._replace(output=24) for layer in EVEN.layers[:4]), *EVEN.layers[4:]))
    assert Plan(Job(wide, 64, DEVICES._replace(link=64 * 8 * 4 / 5)), 4, 1, "never").step == free.step + 6 * 15


def test_1f1b_holds_less_at_the_same_time():
    ours, theirs = (Plan(Job(EVEN, 64, DEVICES, schedule=name), 4, 16, "never") for name in ("gpipe", "1f1b"))
    assert theirs.step == ours.step
    assert [16 * held / ours.activations[0] for held in theirs.activations] == [4, 3, 2, 1]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize("checkpoint", ["never", "except_last", "always"])
def test_planned_activations_are_what_the_engine_counts(schedule, checkpoint):
    torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    from torch import nn

    from gpipe_edu.pytorch import GPipe

    widths = [64, *[96] * 7, 10]
    plan = Plan(Job(mlp(widths), 50, DEVICES, schedule=schedule), 4, 4, checkpoint)
    layers = [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths[:-1])]
    net = nn.Sequential(*layers, nn.Linear(96, 10))
    pipe = GPipe(net, 4, 4, plan.balance, schedule=schedule, checkpoint=checkpoint, measure_memory=True)
    pipe.step(torch.randn(50, 64), torch.zeros(50, dtype=torch.long), nn.CrossEntropyLoss())
    # 50 samples are cut 13, 13, 12, 12 and planned as 13 each, which is at most 1/12 too much.
    for planned, counted in zip(plan.activations, pipe.peak_memory, strict=True):
        assert 0.97 < planned / counted < 1.09


def test_weights_of_a_real_model_go_where_its_layers_go():
    model = transformer(12, 64, 32, 1000)
    plan = Plan(Job(model, 8, Machine(4, 1e9, 1e12), state=8), 4, 4, "always")
    assert sum(plan.state) == 8 * model.parameters
    assert sum(plan.balance) == 14
    assert plan.memory[plan.fullest] == max(plan.memory)
    assert plan.short == max(plan.memory) - 0.9e9
    assert plan.fits
    assert (plan.timeline.source, plan.timeline.unit) == ("planned", "s")
    assert plan.timeline.makespan == plan.step


WRONG = [
    ({"batch": 0}, ValueError, "batch is 0; it must be at least 1"),
    ({"batch": 2.5}, TypeError, "batch is 2.5; it must be a whole number"),
    ({"state": 0}, ValueError, "state is 0"),
    ({"activation": -4}, ValueError, "activation is -4"),
    ({"schedule": "interleaved"}, ValueError, "schedule is 'interleaved'; it must be one of gpipe, 1f1b"),
    ({"machine": DEVICES._replace(devices=0)}, ValueError, "devices is 0"),
    ({"machine": DEVICES._replace(memory=0)}, ValueError, "memory is 0; it must be more than 0"),
    ({"machine": DEVICES._replace(memory=float("nan"))}, ValueError, "memory is nan"),
    ({"machine": DEVICES._replace(memory="16 GB")}, TypeError, "memory is '16 GB'; it must be a number"),
    ({"machine": DEVICES._replace(speed=-1)}, ValueError, "speed is -1"),
    ({"machine": DEVICES._replace(speed=None)}, TypeError, "speed is None"),
    ({"machine": DEVICES._replace(link=0)}, ValueError, "link is 0; it must be more than 0"),
    ({"machine": DEVICES._replace(overhead=-1)}, ValueError, "overhead is -1"),
    ({"machine": DEVICES._replace(reserve=1)}, ValueError, "reserve is 1; it must be at least 0 and below 1"),
]


@pytest.mark.parametrize(("change", "error", "says"), WRONG)
def test_jobs_that_cannot_be_planned_are_refused(change, error, says):
    with pytest.raises(error, match=says):
        Plan(Job(EVEN, 64, DEVICES)._replace(**change), 1, 1, "never")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((9, 1, "never"), ValueError, "K is 9, but there are 8 devices"),
        ((0, 1, "never"), ValueError, "K is 0"),
        ((2, 65, "never"), ValueError, "M is 65, but the mini-batch has 64 samples"),
        ((2, 1.0, "never"), TypeError, "M is 1.0"),
        ((2, 1, "sometimes"), ValueError, "checkpoint is 'sometimes'; it must be one of always, except_last, never"),
    ],
)
def test_plans_that_do_not_fit_their_job_are_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        Plan(Job(EVEN, 64, DEVICES), *arguments)


def test_more_stages_than_layers_are_refused():
    with pytest.raises(ValueError, match="2 layers cannot fill 3 stages"):
        Plan(Job(mlp([4, 4, 4]), 8, DEVICES), 3, 1, "never")
