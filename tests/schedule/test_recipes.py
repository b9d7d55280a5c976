"""The recipes: legal at every size, and with the properties that make each of them worth a name."""

import itertools
from functools import partial
from operator import ge as at_least

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import recipes
from gpipe_edu.schedule.recipes import Form, form_of
from tests.each import each
from tests.oracle import expected_code, plain
from tests.recipes import RECIPES
from tests.refusals import refusals

SIZES = [(K, M) for K in range(1, 9) for M in range(1, 13)]
F1B2 = ge.Costs(F=1, B=2)
PLAIN = [ge.naive, ge.gpipe, ge.one_f_one_b, ge.zero_bubble, ge.zero_bubble_v, ge.dual_pipe_v]
LOOPED = [ge.interleaved, ge.combined_one_f_one_b, ge.breadth_first, ge.interleaved_zero_bubble]


def ops(row, kind):
    return [op.micro_batch for op in row if op.kind == kind]


@each("name", RECIPES)
def test_every_recipe_is_legal_at_every_size_by_doctor_and_oracle(name):
    V = RECIPES[name](1, 1).stages
    for K, M in SIZES:
        schedule = RECIPES[name](K, M)
        assert schedule.problems() == [], (K, M)
        assert expected_code(plain(schedule)) is None, (K, M)
        assert (schedule.devices, schedule.stages, schedule.micro_batches) == (K, K * V, M)


@each(
    "name, form",
    [
        ("naive", Form(takes_V=False, stages=1, splits=False, recomputes=False)),
        ("gpipe-late", Form(takes_V=False, stages=1, splits=False, recomputes=True)),
        ("gpipe-early", Form(takes_V=False, stages=1, splits=False, recomputes=True)),
        ("interleaved", Form(takes_V=True, stages=2, splits=False, recomputes=False)),
        ("zero_bubble", Form(takes_V=False, stages=1, splits=True, recomputes=False)),
        ("interleaved_zero_bubble", Form(takes_V=True, stages=2, splits=True, recomputes=False)),
        ("zero_bubble_v", Form(takes_V=False, stages=2, splits=True, recomputes=False)),
        ("dual_pipe_v", Form(takes_V=False, stages=2, splits=True, recomputes=False, pairs=True)),
        ("combined_1f1b", Form(takes_V=True, stages=2, splits=False, recomputes=False, pairs=True)),
    ],
)
def test_a_recipe_says_by_itself_what_it_is(name, form):
    assert form_of(name) == form


@each("recipe", [ge.naive, ge.gpipe, ge.one_f_one_b, ge.zero_bubble])
def test_device_k_holds_stage_k(recipe):
    assert recipe(3, 5).device_of_stage == {0: 0, 1: 1, 2: 2}


@each("recipe", LOOPED)
@each("V", [1, 2, 3])
def test_a_looped_device_k_holds_stage_k_and_then_every_kth_one(recipe, V):
    assert recipe(3, 5, V).device_of_stage == {stage: stage % 3 for stage in range(3 * V)}


def test_the_naive_recipe_keeps_one_device_busy_at_a_time():
    for K, M in SIZES:
        spans = ge.simulate(ge.naive(K, M)).spans
        assert all(before.end <= after.start for before, after in itertools.pairwise(spans))


@each("recompute, kinds", [(None, "B"), ("late", "C"), ("early", "RB")])
def test_gpipe_runs_all_forwards_then_the_backwards_in_the_papers_order(recompute, kinds):
    for K, M in SIZES:
        for k, row in enumerate(ge.gpipe(K, M, recompute).rows):
            expected = [("F", m, k) for m in range(M)]
            expected += [(kind, m, k) for m in range(M - 1, -1, -1) for kind in kinds]
            assert [tuple(op) for op in row] == expected


def test_gpipe_holds_every_micro_batch_on_every_device():
    for K, M in SIZES:
        assert ge.simulate(ge.gpipe(K, M)).peak_in_flight == (M,) * K


def test_1f1b_holds_at_most_k_minus_k_micro_batches_on_device_k_but_takes_as_long_as_gpipe():
    for K, M in SIZES:
        timeline = ge.simulate(ge.one_f_one_b(K, M), F1B2)
        assert timeline.peak_in_flight == tuple(min(M, K - k) for k in range(K))
        assert timeline.makespan == ge.simulate(ge.gpipe(K, M), F1B2).makespan == (M + K - 1) * 3


def test_1f1b_alternates_once_it_has_warmed_up():
    for K, M in SIZES:
        for k, row in enumerate(ge.one_f_one_b(K, M).rows):
            warm_up = min(M, K - 1 - k)
            kinds = "".join(op.kind for op in row)
            assert kinds == "F" * warm_up + "FB" * (M - warm_up) + "B" * warm_up
            assert ops(row, "F") == ops(row, "B") == list(range(M))


def test_the_facts_about_four_devices_and_eight_micro_batches():
    both = [ge.simulate(recipe(4, 8), F1B2) for recipe in (ge.gpipe, ge.one_f_one_b)]
    assert [timeline.makespan for timeline in both] == [33, 33]
    assert [round(100 * timeline.bubble_fraction, 1) for timeline in both] == [27.3, 27.3]
    assert [timeline.peak_in_flight for timeline in both] == [(8, 8, 8, 8), (4, 3, 2, 1)]


@each("M, percent", [(8, 27.3), (4, 42.9), (32, 8.6), (1, 75.0)])
def test_the_bubble_of_four_devices_in_the_facts(M, percent):
    assert round(100 * ge.simulate(ge.gpipe(4, M)).bubble_fraction, 1) == percent


def test_four_micro_batches_on_four_devices_take_fourteen_slots_if_f_equals_b_not_thirty_two():
    costs = ge.Costs(F=1, B=1)
    assert ge.simulate(ge.gpipe(4, 4), costs).makespan == 14
    assert ge.simulate(ge.naive(4, 4), costs).makespan == 32


@each("costs", [(1, 2, 1), (2, 3, 1), (1, 1, 3), (3, 5, 4), (1, 2, 0)])
def test_early_recompute_saves_exactly_k_minus_1_recomputes(costs):
    F, B, R = costs
    for K, M in SIZES:
        late = ge.simulate(ge.gpipe(K, M, "late"), ge.Costs(F=F, B=B, R=R)).makespan
        early = ge.simulate(ge.gpipe(K, M, "early"), ge.Costs(F=F, B=B, R=R)).makespan
        assert late == (M + K - 1) * (F + R + B)
        assert late - early == (K - 1) * R


@each("K, early, without", [(2, 8.6, 11.1), (4, 12.3, 15.8), (8, 14.1, 17.9)])
def test_the_bubble_with_four_micro_batches_per_device_in_the_facts(K, early, without):
    assert round(100 * ge.simulate(ge.gpipe(K, 4 * K, "early"), F1B2).bubble_fraction, 1) == early
    assert round(100 * ge.simulate(ge.gpipe(K, 4 * K), F1B2).bubble_fraction, 1) == without


def test_zero_bubble_idles_a_third_of_what_1f1b_idles_and_holds_no_more_on_any_device():
    costs = ge.Costs(F=1, I=1, W=1, B=2)
    for K, M in SIZES:
        timeline, old = ge.simulate(ge.zero_bubble(K, M), costs), ge.simulate(ge.one_f_one_b(K, M), costs)
        assert max(timeline.peak_in_flight) == max(old.peak_in_flight) == min(M, K)
        if M >= K:
            for device in range(K):
                assert 3 * timeline.idle(device) == old.idle(device) == 3 * (K - 1)


def test_zero_bubble_is_never_slower_than_1f1b():
    times = [(1, 1, 1), (1, 2, 1), (2, 1, 1), (3, 2, 1), (1, 1, 2)]
    for (K, M), (forward, inputs, weights) in itertools.product(SIZES, times):
        costs = ge.Costs(F=forward, B=inputs + weights, I=inputs, W=weights)
        split = ge.simulate(ge.zero_bubble(K, M), costs).makespan
        assert split <= ge.simulate(ge.one_f_one_b(K, M), costs).makespan, (K, M, costs)


@each("V", [1, 2, 3])
def test_interleaving_divides_the_idle_time_by_v_where_m_is_a_multiple_of_k(V):
    # A device's layers are the same, cut into V stages: each takes a V-th of the time.
    for K, M in SIZES:
        if M % K == 0:
            timeline = ge.simulate(ge.interleaved(K, M, V), ge.Costs(F=6 / V, B=12 / V))
            for device in range(K):
                assert timeline.idle(device) * V == (K - 1) * 18


def test_interleaving_with_one_stage_per_device_is_as_fast_as_1f1b():
    for K, M in SIZES:
        if M % K == 0:
            assert ge.simulate(ge.interleaved(K, M, 1)).makespan == ge.simulate(ge.one_f_one_b(K, M)).makespan


def test_combined_1f1b_is_as_fast_as_interleaved_and_in_blocks_of_two_micro_batches_faster():
    for K, M in SIZES:
        for V in (1, 2, 3):
            schedule, plain_one = ge.combined_one_f_one_b(K, M, V), ge.simulate(ge.interleaved(K, M, V))
            apart, hidden = (ge.simulate(schedule, ge.Costs(overlap=overlap)) for overlap in (0, 1))
            held = tuple(min(M * V, peak + 1) for peak in plain_one.peak_in_flight)
            assert apart.peak_in_flight == hidden.peak_in_flight == held
            assert apart.makespan >= plain_one.makespan >= hidden.makespan
            if M % K == 0:
                assert apart.makespan == plain_one.makespan
                if M > K > 1:
                    assert hidden.makespan < plain_one.makespan
            assert all(one.micro_batch != two.micro_batch or one.stage != two.stage for one, two in schedule.pairs)
            if M % K == 0:
                ahead = [2 * (K - 1 - k) + (V - 1) * K + 1 for k in range(K)]
                assert len(schedule.pairs) == sum(max(0, M * V - first) for first in ahead)


def test_the_facts_about_combined_1f1b_beside_dual_pipe_v():
    halves = [ge.Costs(F=0.5, B=1, overlap=overlap) for overlap in (0, 1)]
    times = [
        [ge.simulate(s, costs).makespan for costs in halves]
        for s in (ge.combined_one_f_one_b(4, 8, 2), ge.dual_pipe_v(4, 8))
    ]
    assert times == [[28.5, 23], [27, 22]]


def test_equal_groups_are_never_slower_than_full_ones_nor_these_than_1f1b_and_hold_as_much_or_more():
    for K, M in SIZES:
        plain_time = ge.simulate(ge.one_f_one_b(K, M), ge.Costs(F=6, B=12)).makespan
        for V in (2, 3):
            costs = ge.Costs(F=6 / V, B=12 / V)
            equal, full = (ge.simulate(ge.interleaved(K, M, V, groups), costs) for groups in ("equal", "full"))
            assert equal.makespan <= full.makespan <= plain_time, (K, M, V)
            assert all(map(at_least, equal.peak_in_flight, full.peak_in_flight)), (K, M, V)
            if M % K == 0:
                assert ge.interleaved(K, M, V, "full") == ge.interleaved(K, M, V)


def test_what_ragged_groups_cost_in_the_facts():
    equal, full = (ge.simulate(ge.interleaved(8, 9, 3, groups)) for groups in ("equal", "full"))
    assert (equal.makespan, full.makespan) == (102, 131)
    assert (equal.peak_in_flight[0], full.peak_in_flight[0]) == (27, 25)


def test_full_groups_can_run_at_every_size():
    for K, M in SIZES:
        for V in (1, 2, 3):
            assert ge.interleaved(K, M, V, "full").problems() == [], (K, M, V)


def test_groups_are_equal_and_as_many_as_pytorch_has():
    assert [list(map(len, recipes._equal_groups(4, M))) for M in (1, 7, 8, 10, 11, 12)] == [
        *([1], [7], [4, 4], [5, 5], [6, 5], [4, 4, 4]),
    ]


def test_interleaved_zero_bubble_is_zero_bubble_where_a_device_has_one_stage():
    for K, M in SIZES:
        assert ge.interleaved_zero_bubble(K, M, 1) == ge.zero_bubble(K, M)


def test_interleaving_zero_bubble_divides_its_idle_time_by_v_and_holds_no_more_than_interleaved_1f1b():
    for K, M in SIZES:
        for V in (1, 2, 3):
            timeline = ge.simulate(ge.interleaved_zero_bubble(K, M, V), ge.Costs(F=6 / V, I=6 / V, W=6 / V))
            if M % K == 0:
                assert [timeline.idle(device) * V for device in range(K)] == pytest.approx([(K - 1) * 6] * K)
            assert max(timeline.peak_in_flight) <= max(ge.simulate(ge.interleaved(K, M, V)).peak_in_flight)
    facts = [ge.simulate(ge.interleaved_zero_bubble(4, 8, V), ge.Costs(F=1 / V, I=1 / V, W=1 / V)) for V in (1, 2, 3)]
    assert [timeline.makespan for timeline in facts] == pytest.approx([27, 25.5, 25])


@each("V", [1, 2, 3])
def test_interleaving_warms_up_no_longer_than_megatron_does(V):
    # Warm-up forwards and one more, then always a backward before the next forward.
    for K, M in SIZES:
        if M % K == 0:
            expected = tuple(min(M * V, 2 * (K - 1 - k) + (V - 1) * K + 1) for k in range(K))
            assert ge.simulate(ge.interleaved(K, M, V)).peak_in_flight == expected
            for row, most in zip(ge.interleaved(K, M, V).rows, expected, strict=True):
                assert [op.kind for op in row].index("B") == most


def test_breadth_first_has_the_bubble_of_interleaving_and_the_memory_of_gpipe():
    for K, M in SIZES:
        for V in (1, 2, 3):
            timeline = ge.simulate(ge.breadth_first(K, M, V))
            assert timeline.peak_in_flight == (M * V,) * K
            if M >= K:
                assert timeline.makespan == (M * V + K - 1) * 3
            if M % K == 0:
                assert timeline.makespan == ge.simulate(ge.interleaved(K, M, V)).makespan
            for row in ge.breadth_first(
                K, M, V
            ).rows:  # one stage for long: it changes 2 V - 2 times, and once at the turn
                assert sum(a.stage != b.stage for a, b in itertools.pairwise(row)) == 2 * V - 2


def test_on_a_v_no_device_waits_once_it_has_begun_and_none_holds_more_than_1f1b():
    for K, M in SIZES:
        timeline = ge.simulate(ge.zero_bubble_v(K, M), ge.Costs(F=1, I=1, W=1))
        assert max(timeline.peak_in_flight) <= 2 * min(K, M)  # of half-size stages, two for each micro-batch
        if M >= 2 * K - 1:
            assert timeline.makespan == 6 * M + K - 1
            for row in map(timeline.row, range(K)):
                assert all(before.end == after.start for before, after in itertools.pairwise(row))


def test_over_free_links_1f1b_takes_no_longer_than_f_then_b_however_uneven_the_stages_are():
    chance = np.random.default_rng(0)
    for _ in range(200):
        K, M = chance.integers(2, 6), chance.integers(1, 10)
        costs = ge.Costs(F=chance.integers(1, 10, K).tolist(), B=chance.integers(1, 20, K).tolist())
        one, flush = (ge.simulate(recipe(int(K), int(M)), costs).makespan for recipe in (ge.one_f_one_b, ge.gpipe))
        assert one <= flush
    slow = ge.Costs(send=0.5)
    assert ge.simulate(ge.one_f_one_b(4, 8), slow).makespan > ge.simulate(ge.gpipe(4, 8), slow).makespan


def test_dual_pipe_v_idles_as_deepseek_says_and_holds_one_half_size_micro_batch_more_than_zb_v():
    for K, M in SIZES:
        if K > 1 and M >= 2 * K:
            for overlap in (0, 0.25, 1):
                timeline = ge.simulate(ge.dual_pipe_v(K, M), ge.Costs(F=4, I=4, W=4, B=8, overlap=overlap))
                together = 4 + 8 - overlap * 4
                assert timeline.idle(K - 1) == (2 * K / 2 - 1) * (together + 8 - 3 * 4)  # P = 2 K
                assert timeline.peak_in_flight == (2 * K + 1,) * K
            apart = ge.simulate(ge.dual_pipe_v(K, M).apart(), ge.Costs(F=1, I=1, W=1))
            assert apart.makespan == ge.simulate(ge.zero_bubble_v(K, M), ge.Costs(F=1, I=1, W=1)).makespan
    facts = [ge.simulate(ge.dual_pipe_v(4, 8), ge.Costs(F=0.5, B=1, overlap=overlap)) for overlap in (0, 1)]
    assert [timeline.makespan for timeline in facts] == [27, 22]


def test_dual_pipe_v_has_a_forward_beside_each_backward_in_the_middle():
    for row in ge.dual_pipe_v(4, 20).rows:
        middle = row[len(row) // 2 - 10 : len(row) // 2 + 10]
        kinds = [op.kind for op in middle]
        assert kinds in (["F", "B"] * 10, ["B", "F"] * 10)
        assert all(a.stage != b.stage for a, b in itertools.pairwise(middle) if (a.kind, b.kind) == ("F", "B"))


@each("recipe", [ge.zero_bubble_v, ge.dual_pipe_v])
def test_on_a_v_the_last_device_hands_over_to_itself(recipe):
    assert recipe(3, 2).device_of_stage == {0: 0, 1: 1, 2: 2, 3: 2, 4: 1, 5: 0}


def test_interleaving_sends_v_times_as_many_boundaries():
    def boundaries(schedule):
        home = schedule.device_of_stage
        return sum(
            home[need.stage] != device
            for device, row in enumerate(schedule.rows)
            for op in row
            for need in schedule.needs(op)
        )

    K, M = 4, 8
    assert boundaries(ge.interleaved(K, M, 1)) == 2 * M * (K - 1)
    assert boundaries(ge.interleaved(K, M, 3)) == 2 * M * (3 * K - 1)


def test_the_names_tell_recipes_apart():
    names = {recipe(2, 2).name for recipe in RECIPES.values()}
    assert len(names) == len(RECIPES)
    assert "" not in names


def counting(recipe, which):
    """A recipe as a function of one of its counts."""
    usual = {"K": 2, "M": 2, "V": 2} if recipe in LOOPED else {"K": 2, "M": 2}
    return lambda count: recipe(**usual | {which: count})


COUNTED = [(recipe, which) for recipe in PLAIN for which in "KM"] + [(looped, n) for looped in LOOPED for n in "KMV"]

WAYS = 'None, "late" or "early"'

test_what_no_recipe_takes = refusals(
    *((TypeError, f"{n} is {{}}", counting(r, n), ["4", None, 2.0, True, [2], np.float64(2)]) for r, n in COUNTED),
    *((ValueError, f"{n} is {{}}; it must be at least 1", counting(r, n), [0, -1]) for r, n in COUNTED),
    (
        ValueError,
        r"K = 2, M = 1(,000){10} and V = 1 are 2(,000){10} forwards; a schedule has at most 1,000,000$",
        lambda: ge.gpipe(2, 10**30),
    ),
    (
        ValueError,
        "DualPipeV on K = 100,000 devices has more than 5,000,000 ops; choose fewer devices",
        lambda: ge.dual_pipe_v(100_000, 1),
    ),
    (ValueError, f"{WAYS}.*{{}}|{{}}.*{WAYS}", lambda way: ge.gpipe(2, 2, way), ["Late", "none", True, False, 0, 1]),
    ((TypeError, ValueError), WAYS, lambda: ge.gpipe(2, 2, ["late"])),
    (
        ValueError,
        'groups is {}; it must be "equal" or "full"',
        lambda groups: ge.interleaved(2, 2, 2, groups),
        ["Full", None, 4, True, ["full"]],
    ),
)


@each("recipe", PLAIN)
def test_recipes_take_numpy_integers_as_ops_do(recipe):
    assert recipe(np.int64(2), np.int32(3)) == recipe(2, 3)


@pytest.mark.parametrize("recipe", [ge.zero_bubble_v, ge.dual_pipe_v, partial(ge.interleaved, V=3, groups="full")])
def test_a_mistyped_count_is_refused_before_an_op_is_built(recipe, monkeypatch):
    def built(*_):
        raise AssertionError("an op was built")

    monkeypatch.setattr(recipes, "Op", built)
    with pytest.raises(ValueError, match=r"on K = 100,000 devices has more than 5,000,000 ops; choose fewer devices$"):
        recipe(100_000, 1)


@pytest.mark.parametrize(
    "recipe", [ge.zero_bubble_v, ge.dual_pipe_v, *(partial(ge.interleaved, V=V, groups="full") for V in (1, 3))]
)
@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_ops_are_counted_as_they_are_built(recipe, K, monkeypatch):
    """Where no micro-batch is left out, the schedule has all ops that its rule goes through."""
    counted = []
    monkeypatch.setattr(recipes, "_check_ops", lambda name, devices, ops: counted.append((name, devices, ops)))
    for M in (2 * K, 4 * K):
        schedule = recipe(K, M)
        assert counted.pop() == (schedule.name, K, sum(map(len, schedule.rows)))
