"""The guide against a search over all plans, and its cures against guides for the cured jobs."""

import pytest

from gpipe_edu.sizing import Guide, Job, Machine, Plan, guide, transformer
from gpipe_edu.sizing.guide import duration, size

MODEL = transformer(blocks=10, width=256, context=128, vocabulary=2000)
MACHINE = Machine(devices=6, memory=200e6, speed=1e12, overhead=20e-6, link=10e9)
JOB = Job(MODEL, 48, MACHINE)


@pytest.fixture(scope="module")
def found():
    return guide(JOB)


def test_the_grid_is_powers_of_two_and_all_devices(found):
    assert {plan.K for plan in found.plans} == {1, 2, 4, 6}
    assert {plan.M for plan in found.plans} == {1, 2, 4, 8, 16, 32}
    assert len(found.plans) == 4 * 6 * 3
    assert {plan.K for plan in Guide(Job(transformer(1, 8, 8, 8), 4, MACHINE)).plans} == {1, 2}  # 3 layers


def test_the_best_is_the_shortest_that_fits(found):
    fitting = [plan for plan in found.plans if max(plan.memory) <= 200e6 * 0.9]
    assert 0 < len(fitting) < len(found.plans)
    assert list(found.fitting) == fitting
    assert found.best in fitting
    shortest = min(plan.step for plan in fitting)
    assert found.best.step <= 1.01 * shortest
    assert min(plan.step for plan in found.plans) < shortest  # one that does not fit is faster still
    assert found.cures() == []


def test_of_equally_fast_plans_the_one_with_fewer_devices_is_best():
    # One layer does all the work, so no cut helps.
    lopsided = MODEL._replace(layers=(*(layer._replace(work=0) for layer in MODEL.layers[:-1]), MODEL.layers[-1]))
    best = Guide(Job(lopsided, 48, MACHINE._replace(memory=1e12, overhead=0, link=None))).best
    assert best.K == 1
    assert best.checkpoint == "never"


def test_rows_show_the_best_M_of_each_kind_and_the_best_of_all(found):
    rows = found.rows()
    assert len(rows) == len({(row.K, row.checkpoint) for row in rows}) == 4 * 3
    assert found.best in rows
    for row in rows:
        same = [plan for plan in found.plans if (plan.K, plan.checkpoint) == (row.K, row.checkpoint)]
        fitting = [plan for plan in same if plan.fits]
        if fitting:
            assert row.fits
            assert row.step <= 1.01 * min(plan.step for plan in fitting)
        else:
            assert row.short == min(plan.short for plan in same)


def test_changes_turn_one_knob_and_say_what_it_does(found):
    best = found.best
    for plan, effect in found.changes():
        turned = [plan.K != best.K, plan.M != best.M, plan.checkpoint != best.checkpoint]
        assert sum(turned) == 1
        assert ("short on device" in effect) == (not plan.fits)
        if abs(plan.step / best.step - 1) > 0.01:
            assert f"{plan.step / best.step - 1:+.0%} time" in effect
    neighbours = {(best.K // 2, best.M), (best.K * 2, best.M), (best.K, best.M // 2), (best.K, best.M * 2)}
    grid = {(plan.K, plan.M) for plan in found.plans}
    turned = [plan for plan, _ in found.changes() if plan.checkpoint == best.checkpoint]
    assert {(plan.K, plan.M) for plan in turned} == neighbours & grid
    assert {change.plan.checkpoint for change in found.changes()} == {"never", "always", "except_last"}


def test_the_reason_counts(found):
    alone = min(plan.step for plan in found.plans if plan.K == 1)
    assert f"{len(found.fitting)} of 72 plans fit" in found.reason()
    assert f"{alone / found.best.step:.2f} times as fast as one device" in found.reason()
    with pytest.raises(ValueError, match="something fits"):
        found.shortage()


def test_when_nothing_fits_it_says_what_is_short_and_each_cure_cures():
    small = JOB._replace(machine=MACHINE._replace(devices=2, memory=60e6))
    poor = Guide(small)
    assert poor.best is None
    assert poor.changes() == []
    with pytest.raises(ValueError, match="nothing fits"):
        poor.reason()
    plan = min(poor.plans, key=lambda plan: max(plan.memory))
    k = plan.fullest
    for words in (
        f"Closest is K={plan.K}, M={plan.M}",
        f"device {k} needs {size(plan.memory[k])} and may use 54 MB, so {size(plan.memory[k] - 54e6)} are short",
        f"{size(plan.state[k])} of weights",
        f"{size(plan.activations[k])} of activations",
    ):
        assert words in poor.shortage()
    memory, devices = poor.cures()  # no batch is small enough for these weights
    needed = max(plan.memory) / 0.9
    assert memory == f"devices of {size(needed)} instead of 60 MB"
    assert Guide(small._replace(machine=small.machine._replace(memory=needed * 1.0001))).best is not None
    count = int(devices.split()[0])
    assert Guide(small._replace(machine=small.machine._replace(devices=count))).best is not None
    assert Guide(small._replace(machine=small.machine._replace(devices=count // 2))).best is None


def test_where_activations_are_to_blame_a_smaller_batch_is_a_cure():
    wide = Job(transformer(4, 64, 512, 100), 4096, Machine(2, 100e6, 1e12))
    assert Guide(wide).best is None
    cure = next(cure for cure in Guide(wide).cures() if "mini-batch" in cure)
    batch = int(cure.split()[3])
    assert Guide(wide._replace(batch=batch)).best is not None
    assert Guide(wide._replace(batch=2 * batch)).best is None


def test_too_many_devices_are_refused():
    with pytest.raises(ValueError, match="devices is 65; the guide plans for at most 64"):
        guide(JOB._replace(machine=MACHINE._replace(devices=65)))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (2.5e6, "2.5 MB"),
        (61.9e9, "61.9 GB"),
        (3.32e15, "3320 TB"),
    ],
)
def test_sizes_are_readable(count, words):
    assert size(count) == words


def test_durations_are_readable():
    assert [duration(seconds) for seconds in (2.5, 0.0401, 3e-5)] == ["2.5 s", "40.1 ms", "30 µs"]


def test_plans_and_guides_show_themselves(found):
    assert repr(Plan(JOB, 2, 4, "never")).startswith("Plan(K=2, M=4, checkpoint never: planned step ")
    lines = str(found).splitlines()
    assert " ".join(lines).endswith(f"Best: {found.best.knobs}. {found.reason()}")
    assert max(map(len, lines)) <= 100
    (best,) = (line for line in lines if line.startswith("*"))
    assert best.split()[1:4] == [str(found.best.K), str(found.best.M), found.best.checkpoint]
    poor = Guide(JOB._replace(machine=MACHINE._replace(memory=20e6)))
    assert poor.shortage() in str(poor).replace("\n", " ")
    assert all(f"cure: {cure}" in str(poor) for cure in poor.cures())
