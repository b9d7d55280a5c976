"""To add a schedule one writes its recipe and registers it, and nothing else: CONTRIBUTING says how."""

import json

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.cli import main
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.view.gantt.settings import Settings, recognise


def several(K, M, V):
    """V stages a device; all forwards, then all backwards, the newest micro-batch first."""
    rows = []
    for k in range(K):
        stages = range(k, V * K, K)
        forwards = [ge.Op("F", m, stage) for stage in stages for m in range(M)]
        rows.append(forwards + [ge.Op("B", *op[1:]) for op in reversed(forwards)])
    return ge.Schedule(rows, name="several")


def divided(K, M):
    """As GPipe, with W right after I."""
    plain = ge.gpipe(K, M)
    rows = [[ge.Op(kind, *op[1:]) for op in row for kind in {"F": "F", "B": "IW"}[op.kind]] for row in plain.rows]
    return ge.Schedule(rows, name="divided")


@pytest.fixture(autouse=True)
def added(monkeypatch):
    monkeypatch.setitem(RECIPES, "three_each", lambda K, M: several(K, M, 3))
    monkeypatch.setitem(RECIPES, "any_number", lambda K, M, V=2: several(K, M, V))
    monkeypatch.setitem(RECIPES, "divided", divided)


def wished(widget, **wish):
    widget.wish = wish
    return json.loads(widget.payload)


def kinds(timeline):
    return {span.op.kind for span in timeline.spans}


def test_the_explorer_draws_as_many_stages_as_there_are():
    pytest.importorskip("anywidget")
    widget = ge.gantt(schedule="three_each", K=4, M=2, factors=[1, 1, 1, 1, 3])
    offered = json.loads(widget.offer)["explorer"]["schedules"]
    plain = {"splits": False, "recomputes": False, "pairs": False}
    assert offered["three_each"] == {"takes_V": False, "stages": 3, **plain}
    assert offered["any_number"]["takes_V"]
    assert widget.settings.stages == 12
    (timeline,) = widget.timelines
    assert (
        timeline.makespan
        == ge.simulate(several(4, 2, 3), ge.Costs(F=[1] * 4 + [3] + [1] * 7, B=[2] * 4 + [6] + [2] * 7)).makespan
    )
    assert wished(widget, schedule="three_each", K=22, serial=1)["error"] == (
        "K = 22 and V = 3 make 66 stages; choose a smaller K or V, for at most 64"
    )
    assert wished(widget, schedule="any_number", K=2, M=3, V=5, serial=2)["error"] is None
    assert widget.timelines == (ge.simulate(several(2, 3, 5)),)


def test_the_explorer_recomputes_or_says_why_not():
    pytest.importorskip("anywidget")
    widget = ge.gantt(schedule="divided", K=2, M=3)
    assert wished(widget, schedule="divided", recompute="late", serial=1)["error"] == (
        "divided splits the backward into I and W, so there is no checkpointed backward C; choose early recompute or "
        "none"
    )
    for name in ("divided", "three_each", "any_number"):
        assert wished(widget, schedule=name, K=2, M=3, recompute="early", serial=2)["error"] is None
        assert "R" in kinds(widget.timelines[0])
    assert wished(widget, schedule="three_each", K=2, M=3, recompute="late", serial=3)["error"] is None
    assert "C" in kinds(widget.timelines[0])


def test_a_schedule_of_the_recipe_gets_the_controls_that_build_it():
    assert recognise(several(3, 4, 3)) == Settings("three_each", 3, 4)
    assert recognise(several(2, 3, 4)) == Settings("any_number", 2, 3, V=4)
    early = Settings("divided", 3, 4, recompute="early")
    assert recognise(early.build()) == early


def test_the_command_line_has_it(capsys):
    for name, recipe in (("three_each", lambda K, M: several(K, M, 3)), ("divided", divided)):
        with pytest.raises(SystemExit):
            main(["schedule", name, "--partitions", "2", "--micro-batches", "3", "--text"])
        assert ge.Schedule.parse(capsys.readouterr().out) == recipe(2, 3)


@pytest.mark.parametrize("name", ["three_each", "any_number", "divided"])
def test_the_numpy_engine_trains_with_it(name):
    layers = ref.mlp([5, 7, 6, 7, 3], seed=1)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(7, 5)), rng.integers(0, 3, 7)
    result = ref.train_pipeline(layers, x, y, RECIPES[name](2, 3))
    assert result.loss == pytest.approx(ref.train_sequential(layers, x, y)[0], rel=1e-12)


def test_the_pytorch_engine_takes_its_name_where_a_device_has_one_stage():
    torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    from gpipe_edu.pytorch import GPipe

    net = torch.nn.Sequential(*(torch.nn.Linear(3, 3, dtype=torch.float64) for _ in range(6)))
    x, loss = torch.ones(6, 3, dtype=torch.float64), torch.nn.functional.mse_loss
    for partitions, schedule, ran in ((2, "divided", "FRIW"), (6, several(2, 3, 3), "FB")):
        pipe = GPipe(net, partitions=partitions, micro_batches=3, schedule=schedule)
        assert pipe.step(x, x, loss).item() == pytest.approx(loss(net(x), x).item(), rel=1e-10)
        assert kinds(pipe.timeline) == set(ran)
    with pytest.raises(ValueError, match="must be one of naive, gpipe, 1f1b, zero_bubble, divided, or a Schedule"):
        GPipe(net, partitions=2, micro_batches=3, schedule="three_each").step(x, x, loss)
