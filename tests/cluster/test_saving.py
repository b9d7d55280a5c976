"""A training that is killed goes on from what it had saved, with the losses that it would have had without the end."""

from functools import partial

import pytest

import gpipe_edu as ge
from gpipe_edu.cluster.saving import saved
from gpipe_edu.distributed import Crew, ProcessError

from . import jobs


@pytest.fixture(scope="module")
def crew():
    with Crew() as found:
        yield found


def train(crew, schedule, folder, steps, **how):
    work = partial(jobs.unwatched, jobs.training, schedule, str(folder), steps, **how)
    return crew.run([work] * (schedule.devices * how.get("copies", 1)), seconds=90).values[0]


@pytest.fixture(scope="module")
def whole(crew, tmp_path_factory):
    return train(crew, ge.gpipe(2, 3), tmp_path_factory.mktemp("whole"), 4)


@pytest.mark.parametrize("then", [ge.one_f_one_b(2, 3), ge.gpipe(1, 2), ge.interleaved(2, 3, 2)])
def test_it_goes_on_with_the_same_losses_also_on_other_stages(crew, tmp_path, whole, then):
    first = train(crew, ge.gpipe(2, 3), tmp_path, 2)
    later = train(crew, then, tmp_path, 4)
    assert sorted(first) + sorted(later) == [0, 1, 2, 3]
    assert first | later == pytest.approx(whole, rel=1e-12)
    assert [path.name for path in saved(tmp_path)] == ["step-00000003", "step-00000004"]


def test_a_kill_while_saving_leaves_the_last_good_one(crew, tmp_path, whole):
    with pytest.raises(ProcessError):
        train(crew, ge.gpipe(2, 3), tmp_path, 4, end_at=2)
    assert [path.name for path in saved(tmp_path)] == ["step-00000001", "step-00000002"]
    assert (tmp_path / "step-00000003.partial").is_dir()
    later = train(crew, ge.gpipe(2, 3), tmp_path, 4)
    assert later == pytest.approx({step: whole[step] for step in (2, 3)}, rel=1e-12)
    assert not list(tmp_path.glob("*.partial"))


def test_zero_1_on_two_replicas_trains_and_resumes_as_one_pipeline_does(crew, tmp_path, whole):
    first = train(crew, ge.gpipe(2, 3), tmp_path, 2, copies=2, zero=True)
    later = train(crew, ge.gpipe(2, 3), tmp_path, 4, copies=2, zero=True)
    assert first | later == pytest.approx(whole, rel=1e-9)


def test_another_network_is_refused(crew, tmp_path, monkeypatch):
    train(crew, ge.gpipe(2, 3), tmp_path, 1)

    def narrower(folder):
        from torch import nn, optim, randn

        from gpipe_edu.cluster import Pipeline, saving

        net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 8), nn.Linear(8, 3)).double()
        pipeline = Pipeline(net, ge.gpipe(1, 2), jobs.LOSS, randn(4, 5).double())
        try:
            saving.load(folder, pipeline, optim.Adam(pipeline.parameters()))
        except ValueError as error:
            return str(error)

    [said] = crew.run([partial(narrower, str(tmp_path))], seconds=60).values
    assert "is of another network: 2.weight is not there, or has another shape" in said
