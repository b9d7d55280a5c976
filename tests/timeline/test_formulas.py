"""Every closed form against a simulation, over a grid of sizes and costs."""

import itertools

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Costs, formulas
from gpipe_edu.schedule import with_recompute
from gpipe_edu.timeline.memory import peak_memory
from tests import oracle
from tests.amount import third
from tests.each import each

SIZES = [(K, M) for K in range(1, 8) for M in range(1, 13)]
COSTS = [(1, 2), (1, 1), (3, 2), (2, 5)]
GRID = third([(K, M, F, B) for (K, M), (F, B) in itertools.product(SIZES, COSTS)])


@each("recipe", [ge.gpipe, ge.one_f_one_b])
def test_makespan_bubble_utilization_and_speedup_are_the_simulated_ones(recipe):
    for K, M, F, B in GRID:
        timeline = ge.simulate(recipe(K, M), Costs(F=F, B=B))
        alone = ge.simulate(ge.gpipe(1, M), Costs(F=K * F, B=K * B)).makespan
        ideal = M * (F + B)
        assert formulas.makespan(K, M, F, B) == timeline.makespan
        assert formulas.bubble_fraction(K, M) == pytest.approx(timeline.bubble_fraction, rel=1e-12)
        assert formulas.bubble_over_ideal(K, M) == pytest.approx(timeline.idle(0) / ideal, rel=1e-12)
        assert formulas.utilization(K, M) == pytest.approx(timeline.busy(K - 1) / timeline.makespan, rel=1e-12)
        assert formulas.speedup(K, M) == pytest.approx(alone / timeline.makespan, rel=1e-12)


def test_the_naive_makespan_is_the_simulated_one():
    for K, M, F, B in GRID:
        assert formulas.makespan_naive(K, M, F, B) == ge.simulate(ge.naive(K, M), Costs(F=F, B=B)).makespan


@pytest.mark.sweep
@pytest.mark.parametrize("R", [None, 0, 1, 2, 7])
def test_late_and_early_recompute_take_what_the_simulation_says(R):
    for K, M, F, B in GRID:
        late, early = (ge.simulate(ge.gpipe(K, M, way), Costs(F=F, B=B, R=R)) for way in ("late", "early"))
        assert formulas.makespan_late(K, M, F, B, R) == late.makespan
        assert formulas.makespan_early(K, M, F, B, R) == early.makespan
        assert formulas.bubble_fraction_early(K, M, F, B, R) == pytest.approx(early.bubble_fraction, rel=1e-12)
        pair = ge.simulate(with_recompute(ge.one_f_one_b(K, M), "always"), Costs(F=F, B=B, R=R))
        assert pair.makespan == early.makespan


@each("unit", [1, 2, 5])
def test_the_makespan_of_zero_bubble_is_the_simulated_one_where_its_form_holds(unit):
    costs = {"F": unit, "I": unit, "W": unit}
    for K, M in SIZES:
        if M >= K:
            timeline = ge.simulate(ge.zero_bubble(K, M), Costs(**costs))
            assert formulas.makespan_zero_bubble(K, M, **costs) == timeline.makespan


def test_the_form_of_zero_bubble_is_refused_where_m_is_below_k():
    with pytest.raises(ValueError, match=r"K=4, M=3.*simulate it instead"):
        formulas.makespan_zero_bubble(4, 3)


DRAWS = 250
"""For each of twelve sizes, of 3,000 random costs; one run of the oracle takes all of a size at once."""


def where_the_forms_hold(seed):
    """F, I and W, one array each: W is no longer than F and no longer than I."""
    F, I, W = np.random.default_rng(seed).uniform(0, 3, (3, DRAWS))  # noqa: E741
    return {"F": F + W, "I": I + W, "W": W}


def simulated(schedule, times, hidden=0):
    """When each device of `schedule` ends, by the oracle. hidden: of a pair, what both overlap."""
    return oracle.ends(
        oracle.blocks(schedule), lambda block: sum(times[kind] for kind, _, _ in block) - hidden * (len(block) - 1)
    )


def each_cost(times):
    return [dict(zip(times, map(float, values), strict=True)) for values in zip(*times.values(), strict=True)]


@each("K, M", [(2, 2), (2, 5), (3, 3), (3, 8), (4, 4), (4, 8), (4, 13), (5, 5), (6, 7), (6, 12), (1, 4), (8, 9)])
def test_zero_bubble_takes_and_idles_what_its_forms_say_for_random_costs(K, M):
    """M >= K, W <= F, W <= I."""
    times = where_the_forms_hold(10 * K + M)
    last = simulated(ge.zero_bubble(K, M), times)
    found = [formulas.makespan_zero_bubble(K, M, **costs) for costs in each_cost(times)]
    assert found == pytest.approx(np.max(last, axis=0), rel=1e-12)
    whole = {"F": times["F"], "B": times["I"] + times["W"]}
    work = M * sum(times.values())
    idle = [np.max(each, axis=0) - work for each in (last, simulated(ge.one_f_one_b(K, M), whole))]
    left = np.array([formulas.idle_left_by_zero_bubble(**costs) for costs in each_cost(times)])
    assert idle[0] == pytest.approx(left * idle[1], abs=1e-9)


@each(
    "K, M, V",
    [
        *((2, 2, 2), (2, 6, 3), (3, 3, 4), (3, 9, 2), (4, 4, 2), (4, 8, 2)),
        *((4, 8, 3), (4, 12, 1), (5, 5, 2), (6, 12, 2), (1, 3, 4), (8, 8, 2)),
    ],
)
def test_interleaved_zero_bubble_takes_what_its_form_says_for_random_costs(K, M, V):
    """M a multiple of K, W <= F, W <= I."""
    times = where_the_forms_hold(100 * V + 10 * K + M)
    found = [formulas.makespan_interleaved_zero_bubble(K, M, V, **costs) for costs in each_cost(times)]
    assert found == pytest.approx(np.max(simulated(ge.interleaved_zero_bubble(K, M, V), times), axis=0), rel=1e-12)
    F, I, W = (V * each for each in times.values())  # noqa: E741 (of a device)
    assert found == pytest.approx(M * (F + I + W) + (K - 1) * (F + I - W) / V, rel=1e-12)


@each("K, M", [(2, 4), (2, 5), (2, 9), (3, 6), (3, 7), (3, 12), (4, 8), (4, 9), (4, 15), (5, 10), (6, 12), (6, 13)])
def test_dual_pipe_v_idles_as_deepseek_says_for_random_costs(K, M):
    """M >= 2K, F = I = W, any share of the shorter op of a pair hidden."""
    draw = np.random.default_rng(10 * K + M)
    F, share = draw.uniform(0.1, 3, DRAWS), draw.uniform(0, 1, DRAWS)
    schedule = ge.dual_pipe_v(K, M)
    last = simulated(schedule, {"F": F, "I": F, "W": F, "B": 2 * F}, hidden=share * F)
    pairs_on_the_last = sum(one.stage in (K - 1, K) for one, _ in schedule.pairs)
    idle = np.max(last, axis=0) - 2 * M * 3 * F + pairs_on_the_last * share * F
    together, P = 3 * F - share * F, 2 * K
    assert idle == pytest.approx((P / 2 - 1) * (together + 2 * F - 3 * F), rel=1e-9)


def test_the_form_of_idle_time_is_refused_where_w_is_longer():
    with pytest.raises(ValueError, match="W <= F and W <= I, not for F=1, I=1, W=2"):
        formulas.idle_left_by_zero_bubble(W=2)


def test_the_form_of_zero_bubble_is_right_or_refused_for_unequal_costs():
    # By simulation it holds exactly where W <= F and W <= I: a weight gradient then fits into every gap.
    for (K, M), (F, I, W) in itertools.product(third(SIZES), itertools.product((1, 2, 3), repeat=3)):  # noqa: E741
        if M < K:
            continue
        simulated = ge.simulate(ge.zero_bubble(K, M), Costs(F=F, I=I, W=W)).makespan
        try:
            assert formulas.makespan_zero_bubble(K, M, F, I, W) == simulated, (K, M, F, I, W)
        except ValueError:
            assert not F == I == W, "its home ground"


@each("V", [1, 2, 3, 4])
def test_the_makespan_of_interleaving_is_the_simulated_one_where_m_is_a_multiple_of_k(V):
    for K, M, F, B in GRID:
        if M % K == 0:
            timeline = ge.simulate(ge.interleaved(K, M, V), Costs(F=F, B=B))
            assert formulas.makespan_interleaved(K, M, V, F, B) == timeline.makespan
        else:
            with pytest.raises(ValueError, match=f"K={K}, M={M}"):
                formulas.makespan_interleaved(K, M, V, F, B)


def test_interleaved_zero_bubble_with_one_stage_a_device_is_zero_bubble_and_refused_elsewhere():
    assert formulas.makespan_interleaved_zero_bubble(4, 8, 1, 3, 2, 1) == formulas.makespan_zero_bubble(4, 8, 3, 2, 1)
    for K, M, times in ((4, 6, {}), (2, 4, {"W": 2}), (2, 4, {"F": 0.5})):
        with pytest.raises(ValueError, match=f"K={K}, M={M}.*simulate it instead"):
            formulas.makespan_interleaved_zero_bubble(K, M, 2, **times)


def test_peak_in_flight_is_the_simulated_one_of_1f1b():
    for K, M in SIZES:
        timeline = ge.simulate(ge.one_f_one_b(K, M))
        assert tuple(formulas.peak_in_flight(K, M, k) for k in range(K)) == timeline.peak_in_flight


@each("costs", [(2, 2, 2, 5), (1, 1), (1, 3, 2), (4,), (1, 0, 1)])
def test_utilization_comes_as_near_to_its_bound_as_you_like_but_never_beyond(costs):
    bound = formulas.utilization_bound(costs)
    reached = []
    for M in (1, 2, 4, 16, 64, 256):
        for recipe in (ge.gpipe, ge.one_f_one_b):
            timeline = ge.simulate(recipe(len(costs), M), Costs(F=costs, B=[2 * c for c in costs]))
            reached.append(1 - timeline.bubble_fraction)
    assert max(reached) <= bound + 1e-12
    assert max(reached) > 0.97 * bound
    assert len(costs) == 1 or min(reached) < 0.9 * bound


def test_eleven_layers_as_2_2_2_5_use_at_most_55_percent():
    assert formulas.utilization_bound([2, 2, 2, 5]) == 11 / 20


@each("way", ["late", "early"])
def test_peak_memory_under_rematerialization_is_the_replayed_one(way):
    for (K, M), layers in itertools.product(SIZES, (1, 3)):
        L, boundary, layer = layers * K, 12.0, 36.0
        timeline = ge.simulate(ge.gpipe(K, M, way))
        replayed = peak_memory(timeline, boundary=boundary / M, interior=layers * layer / M)
        expected = formulas.peak_memory(L, K, M, boundary, layer)
        assert max(replayed) == pytest.approx(expected, rel=1e-9)


def test_more_micro_batches_shrink_the_interior_but_never_the_boundary():
    peaks = [formulas.peak_memory(8, 4, M, boundary=5, layer=3) for M in (1, 2, 8, 10**6)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] == 5 + 2 * 3
    assert 5 < peaks[-1] < 5.001


def test_recompute_costs_a_third_of_the_work_if_a_backward_is_two_forwards():
    assert formulas.recompute_overhead() == pytest.approx(1 / 3)
    for F, B in COSTS:
        without, late = (ge.simulate(ge.gpipe(4, 6, way), Costs(F=F, B=B)) for way in (None, "late"))
        extra = late.busy(0) / without.busy(0) - 1
        assert formulas.recompute_overhead(F, B) == pytest.approx(extra, rel=1e-12)


def test_two_ways_to_quote_the_bubble_are_two_numbers():
    assert formulas.bubble_over_ideal(4, 8) == 0.375
    assert round(formulas.bubble_fraction(4, 8), 3) == 0.273


def test_defaults_are_those_of_costs():
    assert formulas.makespan(4, 8) == ge.simulate(ge.gpipe(4, 8)).makespan
    assert formulas.makespan_naive(4, 8) == ge.simulate(ge.naive(4, 8)).makespan
    assert formulas.makespan_late(4, 8) == ge.simulate(ge.gpipe(4, 8, "late")).makespan
    assert formulas.makespan_early(4, 8) == ge.simulate(ge.gpipe(4, 8, "early")).makespan
    assert formulas.makespan_zero_bubble(4, 8) == ge.simulate(ge.zero_bubble(4, 8)).makespan
    assert formulas.makespan_interleaved(4, 8, 2) == ge.simulate(ge.interleaved(4, 8, 2)).makespan
    split = ge.simulate(ge.interleaved_zero_bubble(4, 8, 2))
    assert formulas.makespan_interleaved_zero_bubble(4, 8, 2) == split.makespan


@pytest.mark.sweep
@pytest.mark.parametrize(("fixed", "work"), [(0.1, 3), (0.04, 3), (1, 1), (2, 0.5), (0.01, 10)])
def test_the_best_number_of_micro_batches_is_the_one_found_by_trying_all(fixed, work):
    for K in third(range(1, 7)):
        steps = {
            M: ge.simulate(ge.gpipe(K, M), Costs(F=(fixed + work / M) / 3, B=2 * (fixed + work / M) / 3)).makespan
            for M in range(1, 90)
        }
        best, found = min(steps, key=steps.get), formulas.best_micro_batches(K, fixed, work)
        assert abs(best - max(1, found)) < 1 or best == 89 < found


def test_the_best_number_of_micro_batches_needs_a_fixed_time():
    with pytest.raises(ValueError, match="fixed is 0"):
        formulas.best_micro_batches(2, 0, 1)
