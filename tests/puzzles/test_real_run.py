"""The learner's schedule runs for real, and its gradients are the same as on one device."""

import dataclasses

import pytest

import gpipe_edu as ge
from gpipe_edu import reference
from gpipe_edu.puzzles import LEVELS, find_level
from gpipe_edu.puzzles import real_run as engine_room
from gpipe_edu.puzzles.real_run import engines, run
from gpipe_edu.schedule import ScheduleError

from .solutions import solved

ALIKE = [level for level in LEVELS if level.costs.micro_batches is None]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(engine_room, "WIDTH", 12)
    monkeypatch.setattr(engine_room, "SAMPLES", 3)


@pytest.mark.parametrize("engine", ["numpy", "torch"])
@pytest.mark.parametrize("level", ALIKE, ids=lambda level: level.key)
def test_every_solution_trains_as_one_device_would(level, engine):
    if engine == "torch":
        pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    schedule = solved(level.key).position.schedule
    result = run(level, schedule, engine)
    assert result.equal
    assert result.difference < 1e-12
    assert result.measured.source == {"numpy": "replayed", "torch": "measured"}[engine]
    assert result.planned.source == "planned"
    for timeline in (result.measured, result.planned):
        assert timeline.unit == "s"
        assert {span.op for span in timeline.spans} == {op for row in schedule.rows for op in row}
    assert "the gradients are the same as on one device" in str(result)


def test_a_wrong_gradient_is_called_wrong(monkeypatch):
    real = reference.train_pipeline

    def doubled(*arguments, **options):
        result = real(*arguments, **options)
        grads = [{name: 2 * value for name, value in layer.items()} for layer in result.grads]
        return dataclasses.replace(result, grads=grads)

    monkeypatch.setattr(reference, "train_pipeline", doubled)
    result = run(find_level("pipelining"), ge.gpipe(3, 3))
    assert not result.equal
    assert result.difference == pytest.approx(1)
    assert "NOT the same as on one device" in str(result)


def test_uneven_stages_get_uneven_work():
    layers, balance, x, _ = engine_room._job(find_level("uneven-stages"))
    assert balance == (2, 4, 1)
    assert len(layers) == 7
    assert len(x) == 3 * 4


def test_what_cannot_run_is_refused():
    level = find_level("pipelining")
    with pytest.raises(ScheduleError, match="F0@1"):
        run(level, ge.Schedule.parse("F0 B0\nB0 F0\nF0 B0"))
    with pytest.raises(ValueError, match="engine is 'jax'; here it can be numpy"):
        run(level, ge.gpipe(3, 3), "jax")
    assert engines()[0] == "numpy"
    assert [level.key for level in LEVELS if level not in ALIKE] == ["unequal-micro-batches"]
    with pytest.raises(ValueError, match="as many samples; lesson 17 runs packs of unequal length"):
        run(find_level("unequal-micro-batches"), solved("unequal-micro-batches").position.schedule)


def test_without_torch_there_is_one_engine(monkeypatch):
    monkeypatch.setattr(engine_room, "find_spec", lambda name: None)
    assert engines() == ("numpy",)
    with pytest.raises(ValueError, match="engine is 'torch'; here it can be numpy"):
        run(find_level("pipelining"), ge.gpipe(3, 3), "torch")
