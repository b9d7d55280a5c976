"""Arguments that cannot work: one clear sentence each."""

import pytest
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.pytorch import GPipe
from tests.each import each

from . import bench

SHARED = nn.BatchNorm1d(4)


def four():
    return ge.gpipe(2, 4)


@each(
    "kind, telling, make",
    [
        (TypeError, r"Linear; .* an nn.Sequential, .*blocks, head\).*at_work.md", lambda: GPipe(nn.Linear(4, 4), 1, 2)),
        (TypeError, r"list; .*: give nn.Sequential\(\*net\)", lambda: GPipe([nn.Linear(4, 4)], 1, 2)),
        (TypeError, r"ModuleList; .*: give nn.Sequential\(\*net\)", lambda: GPipe(nn.ModuleList(bench.mlp()), 2, 2)),
        (ValueError, "stage 0 and in stage 2", lambda: GPipe(nn.Sequential(SHARED, nn.Tanh(), SHARED), 3, 2)),
        (ValueError, "used in stage 0", lambda: GPipe(nn.Sequential(SHARED, SHARED), 2, 2)),
        (ValueError, "8 layers", lambda: GPipe(bench.mlp(), 2, 2, balance=[4, 3])),
        (ValueError, "8 layers", lambda: GPipe(bench.mlp(), 2, 2, balance=[4, 2, 2])),
        (ValueError, "each stage needs a layer; take few", lambda: GPipe(bench.mlp(), 3, 2, balance=[4, 0, 4])),
        (ValueError, "balance", lambda: GPipe(bench.mlp(), 2, 2, balance=[9, -1])),
        (TypeError, "balance", lambda: GPipe(bench.mlp(), 2, 2, balance=[4.0, 4.0])),
        (ValueError, "3", lambda: GPipe(bench.mlp(1), 3, 2)),
        (ValueError, "layers", lambda: GPipe(nn.Sequential(), 1, 2)),
        (ValueError, "partitions", lambda: GPipe(bench.mlp(), 0, 2)),
        (TypeError, "partitions", lambda: GPipe(bench.mlp(), 2.0, 2)),
        (ValueError, "micro_batches", lambda: GPipe(bench.mlp(), 2, 0)),
        (TypeError, "micro_batches", lambda: GPipe(bench.mlp(), 2, "4")),
        (ValueError, "1f1b", lambda: GPipe(bench.mlp(), 2, 2, schedule="pipedream")),
        ((ValueError, TypeError), "schedule", lambda: GPipe(bench.mlp(), 2, 2, schedule=None)),
        (ValueError, "except_last", lambda: GPipe(bench.mlp(), 2, 2, checkpoint="sometimes")),
        ((ValueError, TypeError), "except_last", lambda: GPipe(bench.mlp(), 2, 2, checkpoint=True)),
        (ValueError, "checkpoint", lambda: GPipe(bench.mlp(), 2, 4, schedule=four(), checkpoint="always")),
        (ValueError, "checkpoint", lambda: GPipe(bench.mlp(), 2, 4, schedule=four(), checkpoint="except_last")),
        (ValueError, "partitions", lambda: GPipe(bench.mlp(), 3, 4, schedule=four())),
        (ValueError, "micro_batches", lambda: GPipe(bench.mlp(), 2, 5, schedule=four())),
        (ValueError, "B0@1", lambda: GPipe(bench.mlp(), 2, 1, schedule=ge.Schedule.parse("F0 B0\nB0 F0"))),
        (ValueError, "devices", lambda: GPipe(bench.mlp(), 2, 2, devices=[])),
        (ValueError, "meta", lambda: GPipe(bench.mlp(), 2, 2, devices=["meta"])),
        (TypeError, "call it micro_batches", lambda: GPipe(bench.mlp(), balance=[4, 4], chunks=8)),
        (TypeError, "has no argument 'stages'", lambda: GPipe(bench.mlp(), 2, 2, stages=2)),
        (TypeError, "micro_batches is missing", lambda: GPipe(bench.mlp(), 2)),
        (TypeError, r"balance=\[4, 4\], micro_batches", lambda: GPipe(bench.mlp(), [4, 4], 8)),
        (TypeError, "partitions", lambda: GPipe(bench.mlp(), micro_batches=8)),
        ((ValueError, TypeError), r"\['cpu'\]", lambda: GPipe(bench.mlp(), 2, 2, devices="cpu")),
        (ValueError, r"\['cpu'\]", lambda: GPipe(bench.mlp(), 2, 2, devices=torch.device("cpu"))),
        (ValueError, r"\[None\]", lambda: GPipe(bench.mlp(), 2, 2, devices=[None])),
    ],
)
def test_what_the_constructor_refuses(kind, telling, make):
    with pytest.raises(kind, match=telling) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_a_mistyped_number_of_stages_is_refused_before_a_schedule_is_built(monkeypatch):
    """One for so many stages takes seconds and hundreds of megabytes."""
    monkeypatch.setattr("gpipe_edu.pytorch.gpipe.choose_schedule", lambda *_: pytest.fail("a schedule was built"))
    with pytest.raises(ValueError, match=r"9 layers cannot fill 100000 stages.*use K <= 9"):
        GPipe(nn.Sequential(*bench.mlp(), nn.Tanh()), 100_000, 8)


X, Y = torch.zeros(2, 8, 4, dtype=torch.float64)


@each(
    "kind, telling, x, y, loss_fn, more",
    [
        (TypeError, "list", [1.0, 2.0], Y, bench.mse, {}),
        (TypeError, "is dict; .*: its values as a tuple, say, which the next layer", {"x": X}, Y, bench.mse, {}),
        (TypeError, r"shape \(8, 4\); .* step\(\) is given x, y, loss_fn in this order$", X, bench.mse, Y, {}),
        (ValueError, r'is a tensor of shape \(8, 4\); it must be "mean"', X, Y, bench.mse, {"reduction": X}),
        (TypeError, "NoneType", None, Y, bench.mse, {}),
        (TypeError, "int", (X, 3), Y, bench.mse, {}),
        (TypeError, "tuple", (), Y, bench.mse, {}),
        (ValueError, "samples", torch.zeros(0, 4), Y[:0], bench.mse, {}),
        (ValueError, "samples", torch.zeros(()), Y, bench.mse, {}),
        (ValueError, "samples", (X, X[:7]), Y, bench.mse, {}),
        (ValueError, "8 samples and y has 7", X, Y[:7], bench.mse, {}),
        (ValueError, "y has 16", X, torch.zeros(16, 4), bench.mse, {}),
        (TypeError, "y is NoneType", X, None, bench.mse, {}),
        (TypeError, "y is a list; give the whole mini-batch", X, [0] * 8, bench.mse, {}),
        (TypeError, "one value", X, Y, lambda o, y: o - y, {}),
        (TypeError, "float", X, Y, lambda o, y: 1.0, {}),
        (TypeError, "NoneType", X, Y, lambda o, y: None, {}),
        (ValueError, "avg", X, Y, bench.mse, {"reduction": "avg"}),
        (ValueError, "4 weights", X, Y, bench.mse, {"reduction": [1.0, 2.0]}),
        ((ValueError, TypeError), "reduction", X, Y, bench.mse, {"reduction": None}),
        (TypeError, "loss_fn is 3", X, Y, 3, {}),
        (TypeError, r"give one of it: MSELoss\(\)", X, Y, nn.MSELoss, {}),
        (ValueError, "give the same: reduction='sum'", X, Y, nn.MSELoss(reduction="sum"), {}),
        (ValueError, "give the same: reduction='mean'", X, Y, nn.MSELoss(), {"reduction": "sum"}),
        (RuntimeError, "nothing to train", X, Y, lambda o, y: bench.mse(o.detach(), y), {}),
        (TypeError, "sparse_coo", X.to_sparse(), Y, bench.mse, {}),
    ],
)
def test_what_a_step_refuses(kind, telling, x, y, loss_fn, more):
    pipe = GPipe(bench.mlp(), 2, 4)
    with pytest.raises(kind, match=telling):
        bench.within(lambda: pipe.step(x, y, loss_fn, **more))
    assert all(p.grad is None for p in pipe.parameters())
    bench.within(lambda: pipe.step(X, Y, bench.mse))


@pytest.mark.parametrize("x", [[1.0], None, {"x": X}, (X, 1), torch.zeros(0, 4), torch.zeros(()), (X, X[:7])])
def test_what_a_forward_refuses(x):
    pipe = GPipe(bench.mlp(), 2, 4)
    for train in (True, False):
        with pytest.raises((TypeError, ValueError), match="input"):
            pipe.train(train)(x)


@each("mode", bench.MODES)
@each(
    "what, telling",
    [
        (lambda x: None, "NoneType"),
        (lambda x: [x], "list"),
        (lambda x: {"x": x}, "dict"),
        (lambda x: (x, (x, x)), "tuple"),
        (lambda x: (), "tuple"),
        (lambda x: (x, 1), "int"),
    ],
)
@each("stage", [0, 1])
def test_a_stage_that_returns_no_tensor(stage, what, telling, mode):
    layers = [nn.Linear(4, 4), bench.Apply(what)]
    net = nn.Sequential(*(layers if stage == 1 else [layers[1], nn.Linear(4, 4)]))
    pipe = GPipe(net, 2, 4, checkpoint=mode)
    for call in (lambda: pipe(X), lambda: pipe.step(X, Y, bench.mse)):
        with pytest.raises(TypeError, match=telling) as caught:
            bench.within(call)
        assert "output of a stage" in str(caught.value)
        assert f"stage {stage}" in " ".join(caught.value.__notes__)


@each("mode", bench.MODES)
@each("schedule", ["gpipe", "zero_bubble"])
@each("frozen", [False, True])
def test_a_boundary_tensor_that_is_changed_in_place(frozen, schedule, mode):
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
    net[0].requires_grad_(not frozen)
    pipe = GPipe(net, 2, 4, balance=[1, 2], schedule=schedule, checkpoint=mode)
    for call in (lambda: pipe(X), lambda: pipe.step(X, Y, bench.mse)):
        with pytest.raises(ValueError, match="in place") as caught:
            bench.within(call)
        assert "stage 1" in " ".join(caught.value.__notes__)
    bench.compare(nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)), X, Y, balance=[2, 1])


def test_a_balance_may_be_anything_that_counts():
    for balance in ((n for n in (3, 5)), torch.tensor([3, 5])):
        assert GPipe(bench.mlp(), micro_batches=2, balance=balance).balance == (3, 5)


def test_moving_a_pipe_to_another_device_is_refused_and_moves_nothing():
    pipe = GPipe(bench.mlp(), 2, 2)
    for model in (pipe, nn.Sequential(nn.Linear(4, 4), pipe)):
        with pytest.raises(ValueError, match=r"make a GPipe of the net .* devices=\['meta'\]"):
            model.to("meta")
    assert {weight.device.type for weight in pipe.parameters()} == {"cpu"}
    assert pipe.to("cpu").float()(X.float()).dtype == torch.float32


def test_nothing_measured_yet():
    pipe = GPipe(bench.mlp(), 2, 2)
    with pytest.raises(RuntimeError, match="step"):
        _ = pipe.timeline
    with pytest.raises(RuntimeError, match="step"):
        _ = pipe.peak_memory
    pipe.step(X, Y, bench.mse)
    with pytest.raises(RuntimeError, match="measure_memory"):
        _ = pipe.peak_memory


@pytest.mark.parametrize("call", [lambda pipe: pipe(X, mask=X), lambda pipe: pipe(X, X)])
def test_a_second_input_is_refused_with_what_to_do(call):
    with pytest.raises(TypeError, match=r"with (mask|a tensor of shape \(8, 4\)) besides; .* pipe\(\(x, mask\)\)"):
        call(GPipe(bench.mlp(), 2, 4))


COUNTS_ON_EIGHT = {
    "view": lambda x: x.view(8, 2, 2).flatten(1),
    "sum": lambda x: x + torch.ones(8, 1),
    "cat": lambda x: torch.cat([x, torch.ones(8, 1)], 1),
    "bmm": lambda x: torch.bmm(x.view(-1, 2, 2), torch.ones(8, 2, 2)).flatten(1),
}


@bench.every_way
@pytest.mark.parametrize("name", COUNTS_ON_EIGHT)
def test_a_layer_that_counts_on_the_samples_of_the_mini_batch_is_explained(name, way):
    pipe = GPipe(nn.Sequential(nn.Linear(4, 4), bench.Apply(COUNTS_ON_EIGHT[name])), 2, 4)
    with pytest.raises(RuntimeError) as caught:
        bench.train(pipe, X, Y, bench.mse, way)
    (note,) = (note for note in caught.value.__notes__ if "micro-batch, here" in note)
    assert note == (
        "a layer or the loss gets a micro-batch, here 2 of the mini-batch's 8 samples; where it counts on 8, let it "
        "take the number from what it gets: len(x)"
    )


@pytest.mark.parametrize("layer", [nn.Linear(5, 8), bench.Apply(lambda x: x.repeat(1, 2) + torch.ones(2, 9))])
def test_other_shapes_that_do_not_fit_are_not(layer):
    """Eight is also a width here."""
    with pytest.raises(RuntimeError) as caught:
        GPipe(nn.Sequential(nn.Linear(4, 4), layer), 2, 4)(X)
    assert not any("here 2 of" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("call", ["forward", "step"])
@pytest.mark.parametrize(
    ("pieces", "error", "words"),
    [
        (list(X.split(2)), TypeError, "the input is a list; give the whole mini-batch"),
        (X.split(2), TypeError, "in place of micro-batches that were cut before, give the whole mini-batch"),
        (X.split(3), ValueError, "micro-batches are cut here, so give the whole mini-batch"),
    ],
)
def test_micro_batches_that_were_cut_before_are_told(call, pieces, error, words):
    pipe = GPipe(bench.mlp(), 2, 4)
    with pytest.raises(error) as found:
        pipe(pieces) if call == "forward" else pipe.step(pieces, X[:2], bench.mse)
    assert words in "\n".join([str(found.value), *getattr(found.value, "__notes__", [])])


def test_a_target_of_the_whole_mini_batch_beside_pieces_is_told():
    with pytest.raises(ValueError, match=r"x has 2 samples and y has 8; .* those of the whole mini-batch"):
        GPipe(bench.mlp(), 2, 4).step(X.split(2), X, bench.mse)
