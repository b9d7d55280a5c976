"""The pipeline against one-device training over every schedule and shape; its ledger against a count by hand."""

import itertools
from functools import partial

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.reference.stage import Stage
from tests.amount import third

from ..recipes import RECIPES
from .equality import assert_same_grads

# The models below have too few layers for three stages on each of six devices.
SCHEDULES = {name: recipe for name, recipe in RECIPES.items() if recipe(6, 1).stages <= 12} | {
    "zero bubble, recomputed": lambda K, M: with_recompute(ge.zero_bubble(K, M)),
    "1f1b, all but the last checkpointed": lambda K, M: checkpoint_all_but_last(ge.one_f_one_b(K, M)),
}


def with_recompute(schedule):
    """An R in front of every I."""
    rows = ([o for op in row for o in ([ge.Op("R", *op[1:]), op] if op.kind == "I" else [op])] for row in schedule.rows)
    return ge.Schedule(rows)


def checkpoint_all_but_last(schedule):
    """C instead of B for every micro-batch but the last, which mixes both kinds in one schedule."""
    last = schedule.micro_batches - 1
    rows = (
        [ge.Op("C", *op[1:]) if op.kind == "B" and op.micro_batch < last else op for op in row] for row in schedule.rows
    )
    return ge.Schedule(rows)


@pytest.mark.parametrize("name", SCHEDULES)
def test_two_accumulated_steps_equal_one_device(name):
    rng = np.random.default_rng(20181116)  # the same for all: a badly conditioned network is so under every schedule
    for K, M in third(list(itertools.product(range(1, 7), range(1, 10)))):
        N = int(rng.integers(1, 20))  # ragged, and fewer samples than micro-batches, come by themselves
        loss = rng.choice(["cross_entropy", "mse"])
        reduction = rng.choice(["mean", "sum"])
        norm = rng.choice([None, "layer"])
        layers = ref.mlp([5, 7, 6, 7, 6, 7, 3], rng.choice(["relu", "tanh"]), seed=M, norm=norm, dropout=0.3)
        total, expected = None, None
        for step in range(2):
            x = rng.normal(size=(N, 5))
            y = rng.integers(0, 3, N) if loss == "cross_entropy" else rng.normal(size=(N, 3))
            result = ref.train_pipeline(layers, x, y, SCHEDULES[name](K, M), loss=loss, reduction=reduction, step=step)
            value, grads = ref.train_sequential(layers, x, y, loss, reduction=reduction, step=step)
            assert result.loss == pytest.approx(value, rel=1e-12)
            total = result.grads if total is None else ref.accumulate_grads(total, result.grads)
            expected = grads if expected is None else ref.accumulate_grads(expected, grads)
        assert_same_grads(total, expected)


def test_batch_norm_equals_one_device_that_cuts_the_batch_alike_and_differs_from_the_whole_batch():
    rng = np.random.default_rng(5)
    layers = ref.mlp([4, 6, 6, 3], seed=0, norm="batch")
    x, y = rng.normal(size=(11, 4)), rng.integers(0, 3, 11)
    result = ref.train_pipeline(layers, x, y, ge.one_f_one_b(3, 4))
    total, value = None, 0.0
    for first, end in ((0, 3), (3, 6), (6, 9), (9, 11)):
        weight = (end - first) / 11
        piece_value, piece = ref.train_sequential(layers, x[first:end], y[first:end])
        piece = [{name: weight * grad for name, grad in layer.items()} for layer in piece]
        value += weight * piece_value
        total = piece if total is None else ref.accumulate_grads(total, piece)
    assert result.loss == pytest.approx(value, rel=1e-12)
    assert_same_grads(result.grads, total)
    with pytest.raises(AssertionError, match="apart"):
        assert_same_grads(result.grads, ref.train_sequential(layers, x, y)[1])


@pytest.mark.parametrize("recompute", [None, "late", "early"])
def test_batch_norm_statistics_are_taken_once_whether_or_not_the_forward_is_repeated(recompute):
    layers = [ref.BatchNorm(3), ref.Linear(3, 2)]
    x = np.random.default_rng(6).normal(size=(9, 3))
    result = ref.train_pipeline(layers, x, np.zeros(9, int), ge.gpipe(2, 3, recompute))
    assert result.statistics[0]["samples"] == 9
    np.testing.assert_allclose(result.statistics[0]["sum"], x.sum(axis=0), rtol=1e-12)
    assert result.statistics[1] == {}


def test_a_loss_of_ones_own_is_used():
    def absolute(predictions, targets):
        return float(np.abs(predictions - targets).mean()), np.sign(predictions - targets) / predictions.size

    layers = ref.mlp([2, 4, 1], seed=0)
    x, y = np.random.default_rng(7).normal(size=(7, 2)), np.ones((7, 1))
    result = ref.train_pipeline(layers, x, y, ge.gpipe(2, 3), loss=absolute)
    value, grads = ref.train_sequential(layers, x, y, absolute)
    assert result.loss == pytest.approx(value, rel=1e-12)
    assert_same_grads(result.grads, grads)


def test_stages_of_ones_own_are_run_and_counted():
    class Hoarder(Stage):
        def recompute(self, m):
            runs.append(m)
            super().recompute(m)

        @property
        def held_bytes(self):
            return 7 + super().held_bytes

    layers, runs = ref.mlp([3, 4, 2], seed=0), []
    x, y = np.random.default_rng(0).normal(size=(6, 3)), np.array([0, 1, 1, 0, 1, 0])
    result = ref.train_pipeline(layers, x, y, ge.gpipe(2, 3, "late"), make_stage=Hoarder)
    assert sorted(runs) == [0, 0, 1, 1, 2, 2]
    assert [row[-1].bytes for row in result.memory] == [7, 7]
    assert_same_grads(result.grads, ref.train_sequential(layers, x, y)[1])


def test_the_ledger_counts_what_a_device_holds_after_every_op():
    # Two Linear + Tanh stages of width 4, 2 samples a micro-batch: x is 64 bytes, and so is tanh's y.
    layers = ref.mlp([4, 4, 4, 4], "tanh", seed=0)[:4]
    x, y = np.ones((4, 4)), np.zeros((4, 4))

    def ledger(schedule):
        memory = ref.train_pipeline(layers, x, y, schedule, loss="mse").memory
        return [[(entry.op.label, entry.bytes) for entry in row] for row in memory]

    assert ledger(ge.gpipe(2, 2)) == [[("F0", 128), ("F1", 256), ("B1", 128), ("B0", 0)]] * 2
    assert ledger(ge.gpipe(2, 2, "late")) == [[("F0", 64), ("F1", 128), ("C1", 64), ("C0", 0)]] * 2
    early = [("F0", 64), ("F1", 128), ("R1", 192), ("B1", 64), ("R0", 128), ("B0", 0)]
    assert ledger(ge.gpipe(2, 2, "early")) == [early] * 2
    # I leaves for W what Linear needs: its input and the gradient at its output; tanh's y is no longer held.
    assert ledger(ge.Schedule.parse("F0 F1 I0 W0 I1 W1\nF0 F1 I0 W0 I1 W1"))[0] == [
        ("F0", 128),
        ("F1", 256),
        ("I0", 256),
        ("W0", 128),
        ("I1", 128),
        ("W1", 0),
    ]


def test_peak_memory_is_boundaries_plus_one_interior_under_rematerialization():
    # Two Linear + Tanh pairs a stage. Beyond the boundary input, which the first Linear saves, a stage saves the two
    # outputs of tanh; the second Linear saves the first of them again, which counts once.
    layers = [layer for seed in range(4) for layer in (ref.Linear(4, 4, seed=seed), ref.Tanh())]
    x, y = np.ones((8, 4)), np.zeros((8, 4))
    result = ref.train_pipeline(layers, x, y, ge.gpipe(2, 4, "late"), loss="mse")
    boundary, interior = 64, 2 * 64
    assert result.peak_memory == (4 * boundary + interior,) * 2
    kept = ref.train_pipeline(layers, x, y, ge.gpipe(2, 4), loss="mse")
    assert kept.peak_memory == (4 * (boundary + interior),) * 2


def test_interleaved_stages_share_their_devices_ledger():
    layers = ref.mlp([4] * 5, "tanh", seed=0)
    x, y = np.ones((8, 4)), np.zeros((8, 4))
    result = ref.train_pipeline(layers, x, y, ge.interleaved(2, 4, 2), loss="mse")
    assert [len(row) for row in result.memory] == [16, 16]
    assert [row[-1].bytes for row in result.memory] == [0, 0]
    assert all(
        max(entry.bytes for entry in row) <= peak for row, peak in zip(result.memory, result.peak_memory, strict=True)
    )


def test_the_timeline_says_that_it_is_replayed_and_holds_every_op_once():
    schedule = ge.one_f_one_b(3, 4)
    layers = ref.mlp([2, 4, 4, 2], seed=0)
    timeline = ref.train_pipeline(layers, np.ones((8, 2)), np.zeros(8, int), schedule).timeline
    assert (timeline.source, timeline.unit, timeline.measured) == ("replayed", "s", False)
    assert [tuple(span.op for span in timeline.row(device)) for device in range(3)] == list(schedule.rows)
    assert all(span.end > span.start for span in timeline.spans)


class Broken(ref.Tanh):
    """Fails in one of its functions, on one micro-batch."""

    def __init__(self, where, first):
        super().__init__()
        self.where, self.first, self.calls = where, first, 0

    def at(self, first, step):
        return Broken(self.where, self.first) if first == self.first else ref.Tanh()

    def forward(self, x):
        self.calls += 1
        if self.where == "forward" or (self.where == "recompute" and self.calls == 2):
            raise ZeroDivisionError("mine")
        return super().forward(x)

    def input_gradient(self, dy, saved):
        if self.where == "backward":
            raise ZeroDivisionError("mine")
        return super().input_gradient(dy, saved)


@pytest.mark.parametrize(("where", "op"), [("forward", "F2@1"), ("recompute", "R2@1"), ("backward", "B2@1")])
def test_a_failing_layer_raises_its_own_exception_with_the_op_named(where, op):
    layers = [ref.Linear(2, 2), Broken(where, first=4), ref.Linear(2, 2)]
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        ref.train_pipeline(layers, np.ones((6, 2)), np.zeros(6, int), ge.gpipe(2, 3, "early"), balance=(1, 2))
    assert caught.value.__notes__ == [f"in {op} on device 1: stage 1, micro-batch 2"]


def test_layers_are_never_changed():
    layers = ref.mlp([3, 4, 2], seed=0, norm="batch")
    before = [{name: value.copy() for name, value in layer.params.items()} for layer in layers]
    ref.train_pipeline(layers, np.ones((6, 3)), np.zeros(6, int), ge.gpipe(2, 2))
    for layer, kept in zip(layers, before, strict=True):
        for name, value in kept.items():
            np.testing.assert_array_equal(layer.params[name], value)


@pytest.mark.parametrize("train", [ref.train_sequential, partial(ref.train_pipeline, schedule=ge.gpipe(2, 2))])
def test_what_is_no_mini_batch_is_named(train):
    layers = ref.mlp([3, 4, 2])
    with pytest.raises(TypeError, match=r"^x is 1; it must be an array with samples along its first axis$"):
        train(layers, 1, y=np.zeros(6, int))
    with pytest.raises(TypeError, match=r"^y is None; it must be an array"):
        train(layers, np.ones((6, 3)), y=None)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": np.ones((5, 3))}, "x has 5 samples and y has 6"),
        ({"x": np.ones((0, 3)), "y": np.ones(0, int)}, "x has 0 samples"),
        ({"balance": (1, 1)}, r"balance is \(1, 1\).*3 layers"),
        ({"balance": (3,)}, r"balance is \(3,\).*2 stages"),
        ({"balance": (3, 0)}, "at least one"),
        ({"loss": "hinge"}, "loss is 'hinge'"),
        ({"reduction": "none"}, "reduction is 'none'"),
        ({"schedule": ge.gpipe(4, 2)}, "3 layers cannot fill 4 stages"),
        ({"schedule": ge.Schedule.parse("F0 B0\nB0 F0")}, "device 1 runs B0@1 before F0@1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_runs(change, says):
    class NeverRuns(ref.Tanh):
        def forward(self, x):
            raise RuntimeError("ran")

    arguments = {"x": np.ones((6, 3)), "y": np.zeros(6, int), "schedule": ge.gpipe(2, 2)} | change
    with pytest.raises(ValueError, match=says):
        ref.train_pipeline([NeverRuns()] * 3, **arguments)
