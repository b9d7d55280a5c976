"""The search against trying everything, and plans against a second count of their step and memory."""

import random

import pytest

from gpipe_edu.schedule.recipes import form_of
from gpipe_edu.sizing import STATES, Job, Machine, Plan, Planner, SearchSpace, transformer
from gpipe_edu.sizing.plan import RECOMPUTES, SCHEDULES, ZERO, _homes, _schedule, _walked, stages_per_device
from gpipe_edu.sizing.planner import LONG, TIE
from gpipe_edu.sizing.stages import Counter
from tests.amount import fewer
from tests.each import each
from tests.sizing.independent import Counted, knobs_of

pytestmark = pytest.mark.slow

JOBS, PARTS = 510, 30
"""How many jobs are drawn, and in how many tests."""


def a_job(rng):
    """Small enough to try every plan: on some nothing fits, on others everything."""
    long = rng.random() < 0.2
    model = transformer(
        rng.randint(1, 5),
        32 * rng.randint(1, 4),
        LONG * rng.choice((2, 4)) if long else 32,
        500,
        heads=4,
        shared_heads=rng.choice((2, 4)),
        fused=long or rng.random() < 0.5,
        gated=rng.random() < 0.3,
    )
    machine = Machine(
        devices=rng.randint(1, 6),
        memory=rng.choice((2e6, 6e6, 20e6, 1e9)) * (300 if long else 1),
        speed=10 ** rng.uniform(9, 12),
        overhead=rng.choice((0, 1e-5)),
        link=rng.choice((None, 10 ** rng.uniform(6, 11))),
        network=rng.choice((None, 10 ** rng.uniform(6, 10))),
        node=rng.choice((None, 1, 2, 4)),
        latency=rng.choice((0, 1e-5)),
        bandwidth=rng.choice((None, 10 ** rng.uniform(8, 11))),
    )
    return Job(model, rng.choice((3, 4, 8)), machine, rng.choice(list(STATES.values())), rng.choice((2, 4)))


def some_ways(rng):
    """All ways come up, two or three of a kind at a time, so that every plan of a job can be tried."""
    return SearchSpace(
        zero=tuple(sorted(rng.sample(ZERO, 2))),
        tensor=rng.choice(((1,), (1, 2), (2, 1, 4))),
        sequence=rng.choice(((True,), (False,), (True, False))),
        context=rng.choice(((1,), (1, 2), (2, 4))),
        schedules=tuple(rng.sample(SCHEDULES, 2)),
        V=rng.choice(((2,), (2, 3))),
        recompute=tuple(rng.sample(tuple(RECOMPUTES), 2)),
    )


def every_way(job, ways):
    """The knobs of all plans there are, one inside the other, for few devices, of which any number may be used."""
    machine, layers = job.machine, len(job.model.layers)
    for tensor in ways.tensor:
        if machine.node is not None and (tensor > machine.node or machine.node % tensor):
            continue
        for context in ways.context:
            if context > 1 and job.model.tokens / context < LONG:
                continue
            for K in range(1, layers + 1):
                for schedule in ways.schedules if K > 1 else ("1f1b",):
                    for V in ways.V if form_of(schedule).takes_V else (None,):
                        if K > 1 and layers < K * stages_per_device(schedule, V):
                            continue
                        # Beside a pipeline some system has ZeRO-1, and one ZeRO-2 in breadth first.
                        most = 3 if K == 1 else 2 if schedule == "breadth_first" else 1
                        zeros = [zero for zero in ways.zero if zero <= most] or ways.zero
                        for D in range(1, machine.devices // (tensor * context * K) + 1):
                            for M in range(1, job.batch // D + 1):
                                for zero in zeros:
                                    for recompute in ways.recompute:
                                        for sequence in ways.sequence:
                                            yield {
                                                "D": D, "K": K, "M": M, "recompute": recompute, "schedule": schedule,
                                                "V": V, "zero": zero, "tensor": tensor, "sequence": sequence,
                                                "context": context,
                                            }  # fmt: skip


def assert_counted(plan):
    """A plan is what is counted: its cut, its step, and the memory of every device."""
    counted = Counted(plan.job, knobs_of(plan), plan.balance)
    assert counted.cut_is_best()
    assert plan.step == pytest.approx(counted.step, rel=1e-9)
    assert plan.state == pytest.approx([counted.state(device) for device in range(plan.K)])
    assert plan.activations == pytest.approx([counted.activations(device) for device in range(plan.K)])


@pytest.mark.parametrize("part", range(fewer(PARTS)))
def test_no_plan_beats_the_best_and_the_best_fits(part):
    rng = random.Random(part)
    fits = 0
    for _ in range(JOBS // PARTS):
        job, ways = a_job(rng), some_ways(rng)
        everything = list(every_way(job, ways))
        if not everything:
            with pytest.raises(ValueError, match="no plan is left to weigh"):
                Planner(job, ways)
            continue
        guide = Planner(job, ways)
        best, first = guide.best, guide.fastest
        fits += best is not None
        for plan in filter(None, [best, rng.choice(guide.plans)]):
            assert_counted(plan)
        if best is not None:
            assert Counted(job, knobs_of(best), best.balance).fits
            assert best.step <= (1 + TIE) * first.step
        counter = Counter(job)
        for knobs in everything:
            counted = Counted(job, knobs, Plan(job, **knobs, counter=counter).balance)
            if best is None:
                assert not counted.fits
            elif counted.floor < first.step and counted.fits:
                assert first.step <= (1 + 1e-9) * counted.step
    assert fits


@each(
    "name, V",
    [
        *((name, V) for name in ("interleaved", "combined_1f1b", "interleaved_zero_bubble") for V in (1, 2, 5)),
        *(("zero_bubble", 1), ("zero_bubble_v", 2), ("dual_pipe_v", 2)),
    ],
)
def test_few_micro_batches_show_the_most_that_many_hold(name, V):
    for K in (2, 3, 5):
        for again in {False, form_of(name).splits}:
            sizes = (2 * K, 3 * K, 5 * K) + (2 * K + 1, 5 * K + 1) * (not form_of(name).takes_V)
            few, *more = (set_of_moments(name, K, M, V, again) for M in sizes)
            assert more == [few] * len(more)


def set_of_moments(name, K, M, V, again):
    return [set(moments) for moments in _walked(name, K, M, V, again)]


@each("name, V", [(name, V) for name in SCHEDULES for V in (1, 2, 3) if stages_per_device(name, V) == V])
def test_stages_are_at_home_where_the_schedule_has_them(name, V):
    for K in (2, 3, 4, 7):
        home = _schedule(name, K, 3, V, recompute=False).device_of_stage
        assert [home[stage] for stages in _homes(name, K, V) for stage in stages] == [
            device for device in range(K) for _ in range(V)
        ]
