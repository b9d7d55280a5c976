"""The guide against a search over everything, its cures against guides for the cured jobs, and published runs."""

import random

import pytest

from gpipe_edu.sizing import STATES, WAYS, Guide, Job, Machine, Plan, guide, transformer
from gpipe_edu.sizing.guide import TIE, duration, size
from gpipe_edu.sizing.plan import RECOMPUTES, SCHEDULES
from tests.amount import fewer

MODEL = transformer(blocks=10, width=256, context=128, vocabulary=2000)
MACHINE = Machine(devices=6, memory=200e6, speed=1e12, overhead=20e-6, link=10e9)
JOB = Job(MODEL, 48, MACHINE)


@pytest.fixture(scope="module")
def found():
    return guide(JOB)


def a_job(rng):
    """Small enough to try every plan: on some nothing fits, on others everything."""
    model = transformer(
        rng.randint(1, 5), 32 * rng.randint(1, 4), 32, 500, heads=4, fused=rng.random() < 0.5, gated=rng.random() < 0.3
    )
    machine = Machine(
        devices=rng.randint(1, 6),
        memory=rng.choice((2e6, 6e6, 20e6, 1e9)),
        speed=10 ** rng.uniform(9, 12),
        overhead=rng.choice((0, 1e-5)),
        link=10 ** rng.uniform(6, 11),
        network=10 ** rng.uniform(6, 10),
        node=rng.choice((1, 2, 4)),
        latency=rng.choice((0, 1e-5)),
    )
    return Job(
        model,
        rng.choice((3, 8, 12)),
        machine,
        rng.choice(list(STATES.values())),
        rng.choice((2, 4)),
        rng.choice(SCHEDULES),
        zero=rng.random() < 0.5,
    )


@pytest.mark.parametrize("seed", range(fewer(10)))
def test_no_plan_beats_the_best_and_the_best_fits(seed):
    rng = random.Random(seed)
    fits = 0
    for _ in range(20):
        job = a_job(rng)
        devices, layers = job.machine.devices, len(job.model.layers)
        every = [
            Plan(job, D, K, M, recompute)
            for D in range(1, devices + 1)
            for K in range(1, devices // D + 1)
            for M in range(1, job.batch // D + 1)
            for recompute in RECOMPUTES
            if layers >= K * (job.V if K > 1 else 1)
        ]
        fitting = [plan for plan in every if max(plan.memory) <= 0.9 * job.machine.memory]
        best = Guide(job).best
        assert (best is None) == (not fitting)
        if best is not None:
            fits += 1
            assert max(best.memory) <= 0.9 * job.machine.memory
            assert best.step <= (1 + TIE) * min(plan.step for plan in fitting)
    assert 0 < fits < 20


def test_every_number_of_few_devices_is_tried_and_of_many_every_divisor(found):
    assert {(plan.D, plan.K) for plan in found.plans} == {
        (D, K) for D in range(1, 7) for K in range(1, 7) if D * K <= 6
    }
    assert {plan.K for plan in Guide(Job(transformer(1, 8, 8, 8), 4, MACHINE)).plans} == {1, 2, 3}  # 3 layers
    many = Guide(Job(MODEL, 40, MACHINE._replace(devices=20)))
    assert {(plan.D, plan.K) for plan in many.plans} == {
        (D, K) for D in (1, 2, 4, 5, 10, 20) for K in (1, 2, 4, 5, 10) if D * K <= 20
    }
    # Every size of micro-batch once: 48 samples by 5, 6, 7 ... pieces are 10, 8, 7 ...
    sizes = [plan.samples for plan in found.plans if (plan.D, plan.K, plan.recompute) == (1, 1, "none")]
    assert sizes == sorted({-(-48 // M) for M in range(1, 49)}, reverse=True)


def test_scores_that_are_not_stored_are_not_recomputed(found):
    assert {plan.recompute for plan in found.plans} == {"none", "full", "stage"}
    stored = transformer(2, 64, 32, 100, fused=False)
    assert {plan.recompute for plan in Guide(JOB._replace(model=stored)).plans} == set(RECOMPUTES)


def test_of_equally_fast_plans_the_one_with_fewer_devices_is_best():
    # One layer does all the work, so no cut helps, and the mini-batch is one sample, so replicas don't either.
    lopsided = MODEL._replace(layers=(*(layer._replace(work=0) for layer in MODEL.layers[:-1]), MODEL.layers[-1]))
    best = Guide(Job(lopsided, 1, MACHINE._replace(memory=1e12, overhead=0, link=None))).best
    assert (best.D, best.K, best.recompute) == (1, 1, "none")


def test_rows_show_the_best_of_each_K_and_the_best_of_all(found):
    rows = found.rows()
    assert [row.K for row in rows] == [1, 2, 3, 4, 5, 6]
    assert found.best in rows
    for row in rows:
        same = [plan for plan in found.plans if plan.K == row.K]
        fitting = [plan for plan in same if plan.fits]
        if fitting:
            assert row.fits
            assert row.step <= (1 + TIE) * min(plan.step for plan in fitting)
        else:
            assert row.short == min(plan.short for plan in same)


def test_changes_turn_one_knob_and_say_what_it_does(found):
    best = found.best
    seen = set()
    for plan, effect in found.changes():
        knobs = "".join(name for name in ("D", "K", "M", "recompute") if getattr(plan, name) != getattr(best, name))
        assert knobs in ("D", "K", "M", "recompute", "DK")  # replicas for stages, or the other way round
        seen.add(knobs)
        assert ("short on device" in effect) == (not plan.fits)
        if abs(plan.step / best.step - 1) > 0.01:
            assert f"{plan.step / best.step - 1:+.0%} time" in effect
    assert {"M", "recompute"} <= seen


def test_the_reason_says_when_to_use_a_pipeline_and_when_not():
    roomy = Guide(JOB._replace(machine=MACHINE._replace(memory=10e9)))
    assert (roomy.best.D, roomy.best.K) == (6, 1)
    cut = min((plan for plan in roomy.fitting if plan.K > 1), key=lambda plan: plan.step)
    assert "No pipeline is needed: the model fits on each device" in roomy.reason()
    assert f"takes {cut.step / roomy.best.step:.2f} times as long" in roomy.reason()
    assert f"{len(roomy.fitting)} of {len(roomy.plans)} plans fit" in roomy.reason()

    tight = Guide(JOB._replace(machine=MACHINE._replace(memory=120e6)))
    assert tight.best.K > 1
    least = min(plan.short for plan in tight.plans if plan.K == 1)
    assert "Of the ways weighed only a pipeline fits: a device with the whole" in tight.reason()
    assert f"lacks {size(least)}" in tight.reason()

    slow = Guide(JOB._replace(machine=MACHINE._replace(memory=10e9, link=2e8)))
    assert slow.best.K > 1
    times = slow.alone.step / slow.best.step
    assert (
        f"Of the ways weighed a pipeline is fastest: replicas alone, {slow.alone.knobs}, fit but take {times:.2f} times"
        in slow.reason()
    )

    one = Guide(JOB._replace(machine=MACHINE._replace(devices=1, memory=10e9)))
    assert "On one device there is nothing to divide." in one.reason()
    with pytest.raises(ValueError, match="something fits"):
        one.shortage()


@pytest.mark.parametrize(("memory", "cured"), [(90e6, False), (110e6, True)])
def test_where_zero_1_would_spare_the_pipeline_the_reason_says_so(memory, cured):
    job = JOB._replace(machine=MACHINE._replace(memory=memory))
    without, with_zero = Guide(job), Guide(job._replace(zero=True))
    assert without.alone is None
    assert (with_zero.alone is not None) == cured
    assert ("With ZeRO-1 replicas alone fit, too." in without.reason()) == cured
    assert "replicas alone fit, too" not in with_zero.reason()


def test_it_says_of_which_ways_it_speaks_and_weighs_just_these(found):
    """Whatever the verdict. Sharded weights are not among them, so no verdict may be about all ways there are."""
    knobs = [{getattr(plan, name) for plan in found.plans} for name in ("D", "K", "M", "recompute")]
    assert all(len(values) > 1 for values in knobs), "replicas, stages, micro-batches and recompute"
    assert {plan.job for plan in found.plans} == {JOB}, "the rest as given"
    poor = Guide(JOB._replace(machine=MACHINE._replace(memory=20e6)))
    for any_guide in (found, poor):
        assert " ".join(str(any_guide).split()).endswith(WAYS)


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
        "Of the ways weighed nothing fits.",
        f"Closest is D={plan.D}, K={plan.K}, M={plan.M}",
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


def test_where_the_optimizer_is_to_blame_zero_is_a_cure():
    # Three layers, of which one has nearly all weights: a cut helps little.
    job = Job(transformer(1, 256, 32, 50), 12, Machine(6, 1e12, 1e12), STATES["mixed-adam"])
    needed = [min(max(plan.memory) for plan in Guide(job._replace(zero=zero)).plans) for zero in (True, False)]
    poor = Guide(job._replace(machine=job.machine._replace(memory=sum(needed) / 2 / 0.9)))
    assert poor.best is None
    assert "ZeRO-1" in poor.cures()[-1]
    assert Guide(poor.job._replace(zero=True)).best is not None


def test_where_activations_are_to_blame_a_smaller_batch_is_a_cure():
    wide = Job(transformer(4, 64, 512, 100), 4096, Machine(2, 10e6, 1e12))
    assert Guide(wide).best is None
    cure = next(cure for cure in Guide(wide).cures() if "mini-batch" in cure)
    batch = int(cure.split()[3])
    assert Guide(wide._replace(batch=batch)).best is not None
    assert Guide(wide._replace(batch=2 * batch)).best is None


def test_too_many_devices_are_refused():
    with pytest.raises(ValueError, match="devices is 16385; the guide plans for at most 16384"):
        guide(JOB._replace(machine=MACHINE._replace(devices=16385)))


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (2.5e6, "2.5 MB"),
        (61.9e9, "61.9 GB"),
        (999.6e6, "1 GB"),
        (3.32e15, "3320 TB"),
    ],
)
def test_sizes_are_readable(count, words):
    assert size(count) == words


def test_durations_are_readable():
    assert [duration(seconds) for seconds in (2.5, 0.0401, 3e-5)] == ["2.5 s", "40.1 ms", "30 µs"]


def test_plans_and_guides_show_themselves(found):
    assert repr(Plan(JOB, 1, 2, 4, "none")).startswith("Plan(D=1, K=2, M=4, recompute none: planned step ")
    lines = str(found).splitlines()
    assert f"Best: {found.best.knobs}. {found.reason()}" in " ".join(lines)
    assert max(map(len, lines)) <= 100
    (best,) = (line for line in lines if line.startswith("*"))
    assert best.split()[1:5] == [str(found.best.D), str(found.best.K), str(found.best.M), found.best.recompute]
    poor = Guide(JOB._replace(machine=MACHINE._replace(memory=20e6)))
    assert poor.shortage() in str(poor).replace("\n", " ")
    assert all(f"cure: {cure}" in str(poor) for cure in poor.cures())
