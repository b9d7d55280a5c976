"""Costs taken from a timeline give that timeline back."""

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu import Span, Timeline
from gpipe_edu.timeline import calibrate, replay

from ..recipes import RECIPES
from ..strategies import priced


@given(priced([recipe(3, 4) for recipe in RECIPES.values()]))
def test_a_plan_with_the_costs_of_a_plan_is_that_plan(case):
    schedule, costs, _, _ = case
    once = ge.simulate(schedule, costs)
    again = ge.simulate(schedule, calibrate(once))
    assert again.makespan == pytest.approx(once.makespan)


def test_durations_that_vary_give_their_mean_per_stage_and_kind():
    schedule = ge.gpipe(2, 2)
    seconds = {op: 1.0 + op.micro_batch + 10 * op.stage + 100 * (op.kind == "B") for row in schedule.rows for op in row}
    costs = calibrate(replay(schedule, seconds.__getitem__))
    assert costs.F == (1.5, 11.5)
    assert costs.B == (101.5, 111.5)


def test_the_time_of_a_transfer_is_found_where_a_device_waited_for_it():
    costs = calibrate(ge.simulate(ge.gpipe(3, 4), ge.Costs(F=1, B=2, send=0.25)))
    assert costs.send == pytest.approx(0.25)


def test_half_a_timeline_is_refused():
    with pytest.raises(ValueError, match="forwards and backwards"):
        calibrate(Timeline([Span(0, ge.Op("F", 0, 0), 0, 1)], 1))


def test_a_plan_with_the_costs_of_a_run_is_in_its_unit():
    run = replay(ge.gpipe(2, 3), lambda op: 0.5, source="replayed", unit="s")
    plan = ge.simulate(ge.gpipe(2, 3), calibrate(run)).with_name("the plan")
    assert (plan.unit, plan.name, plan.source) == ("s", "the plan", "planned")
    assert ge.simulate(ge.gpipe(2, 3)).unit == ""


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="unit is 'ms'"):
        ge.Costs(unit="ms")
