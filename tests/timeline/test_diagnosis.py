"""What is said of a measured step is what was put into it, and its figures are the simulator's."""

import random
import re

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import Op, recipes
from gpipe_edu.timeline import Span, Timeline, replay, step_with_fault
from gpipe_edu.timeline.timeline import Exchange
from tests.recipes import small_schedules

SCHEDULES = (ge.one_f_one_b(4, 8), ge.gpipe(5, 6))


def sentences(diagnosis):
    return str(diagnosis).split("\n- ")


def test_the_bubble_of_a_plan_is_that_of_its_order():
    for schedule in small_schedules():
        step = ge.simulate(schedule, ge.Costs(F=1, B=3))
        found = ge.diagnose(step)
        assert found.bubble == pytest.approx(step.bubble_fraction)
        assert found.planned_bubble == pytest.approx(step.bubble_fraction)
        assert found.planned_makespan == pytest.approx(found.makespan) == pytest.approx(step.makespan)
        assert found.spread == 0
        assert not any(found.late.values())
        assert "so the order and the costs explain it" in sentences(found)[0]


def test_each_fault_is_found_where_it_is():
    for seed in range(5):
        for schedule in SCHEDULES:
            K = schedule.devices
            for rank in range(K):
                found = ge.diagnose(step_with_fault(schedule, [4] * K, slow_rank=rank, seed=seed))
                assert (found.slowest_stage, found.cause) == (rank, "")
                assert found.slower_by == pytest.approx(1.6, abs=0.1)
                assert any(f"Stage {rank} is the slowest" in one.sentence for one in found.findings)
                uneven = [4 + 3 * (k == rank) for k in range(K)]
                found = ge.diagnose(step_with_fault(schedule, uneven, seed=seed), layers=uneven)
                assert (found.slowest_stage, max(found.balance)) == (rank, -(-sum(uneven) // K))
                assert found.cause == "uneven cut"
            for link in range(K - 1):
                found = ge.diagnose(step_with_fault(schedule, [4] * K, slow_link=link, seed=seed))
                assert set(max(found.late, key=found.late.get)) == {link, link + 1}
                assert max(found.late.values()) == pytest.approx(4, abs=0.4)  # 8 times 0.5
                [told] = [one.sentence for one in found.findings if "Messages are late" in one.sentence]
                assert re.match(
                    rf"Messages are late, most of all from device ({link} to {link + 1}|{link + 1} to {link}),", told
                )


def test_with_layers_a_slow_rank_is_told_from_an_uneven_cut():
    schedule = ge.one_f_one_b(4, 8)
    of_a_layer = r"; each of its layers takes {} times as long as the others', so it is {}: "
    for layers, knobs, cause, told in (
        ([4, 4, 4, 7], {}, "uneven cut", of_a_layer.format(r"(0\.9\d|1\.0\d)", "an uneven cut") + "a cut into "),
        (
            [4, 5, 4, 4],
            {"slow_rank": 1},
            "slow rank",
            of_a_layer.format(r"1\.[56]\d", "a slow rank") + "if it were as fast",
        ),
        ([4, 3, 4, 4], {"slow_rank": 1}, "slow rank", "if it were as fast as the others, a step would take "),
    ):
        found = ge.diagnose(step_with_fault(schedule, layers, seed=3, **knobs), layers=layers)
        assert (found.slowest_stage, found.cause) == (1 if knobs else 3, cause)
        [one] = [one for one in found.findings if "is the slowest" in one.sentence]
        assert re.search(told, one.sentence)
        asked = "a cut into" in one.sentence and knobs
        assert ("if its layers are as slow on any device" in one.sentence) == bool(asked)
        assert "not the device" not in one.sentence
    assert ge.diagnose(step_with_fault(schedule, [4] * 4, slow_link=1, seed=3), layers=[4] * 4).cause == ""


def test_what_a_slow_rank_costs_is_what_the_step_is_longer_than_with_others_like_it():
    schedule = ge.one_f_one_b(4, 8)
    even = ge.simulate(schedule, ge.Costs(F=4, B=8))
    slow = ge.simulate(schedule, ge.Costs(F=[4, 4, 6, 4], B=[8, 8, 12, 8]))
    found = ge.diagnose(slow, layers=[4] * 4)
    assert found.cause == "slow rank"
    [one] = [one for one in found.findings if "is the slowest" in one.sentence]
    assert one.gain == pytest.approx(slow.makespan - even.makespan)
    assert f"if it were as fast as the others, a step would take {even.makespan:.4g}" in one.sentence
    # No layer can be moved from a stage that has but one, and what is slow is named all the same.
    [alone] = [one for one in ge.diagnose(slow, layers=[1] * 4).findings if "is the slowest" in one.sentence]
    assert alone.sentence.endswith(f"if it were as fast as the others, a step would take {even.makespan:.4g}.")


def test_an_op_that_took_long_once_is_named():
    slow = Op("F", 5, 0)
    found = ge.diagnose(step_with_fault(ge.one_f_one_b(4, 8), [4] * 4, stumbles=slow, seed=1))
    assert re.search(r"such as F5@0, which took 3\.\d times the median of its like \(", sentences(found)[0])


def test_the_cut_and_its_step_are_those_of_balance_by_cost_and_the_simulator():
    schedule, layers = ge.one_f_one_b(4, 8), [3, 5, 4, 4]
    F, B = [3.0, 5.0, 8.0, 4.0], [6.0, 10.0, 17.0, 8.0]
    found = ge.diagnose(ge.simulate(schedule, ge.Costs(F=F, B=B)), layers=layers)
    of_layer = [k for k, count in enumerate(layers) for _ in range(count)]
    assert found.balance == ge.balance_by_cost([(F[k] + B[k]) / layers[k] for k in of_layer], 4)
    bounds = [sum(found.balance[:k]) for k in range(5)]
    cut = [of_layer[bounds[k] : bounds[k + 1]] for k in range(4)]
    costs = {name: [sum(of[k] / layers[k] for k in mine) for mine in cut] for name, of in (("F", F), ("B", B))}
    assert found.balanced_makespan == pytest.approx(ge.simulate(schedule, ge.Costs(**costs)).makespan)
    assert found.balanced_makespan < found.planned_makespan
    [sentence] = [one.sentence for one in found.findings if "balance_by_cost" in one.sentence]
    cut_into = f"a cut into {', '.join(map(str, found.balance))} layers instead of 3, 5, 4, 4, as balance_by_cost"
    assert f"{cut_into} proposes, would give" in sentence


def test_without_layers_stages_count_as_ten_each_and_even_ones_stay():
    found = ge.diagnose(ge.simulate(ge.one_f_one_b(4, 8)))
    assert found.balance == (10, 10, 10, 10)
    assert found.balanced_makespan == found.planned_makespan
    found = ge.diagnose(ge.simulate(ge.one_f_one_b(2, 8), ge.Costs(F=[1, 2], B=[2, 4])))
    assert found.balance == (15, 5) or sum(found.balance) == 20
    assert "each of today's stages counted as 10," in str(found)


def test_a_shorter_schedule_is_one_at_these_costs_and_in_this_memory():
    for schedule in (ge.gpipe(4, 8), ge.one_f_one_b(4, 8), ge.interleaved(2, 8, V=2), ge.breadth_first(2, 8, V=2)):
        step = ge.simulate(schedule, ge.Costs(F=2, B=5))
        found = ge.diagnose(step)
        plan = ge.simulate(found.shorter, ge.Costs(F=2, B=5))
        assert found.shorter_makespan == pytest.approx(plan.makespan)
        assert plan.makespan < step.makespan
        assert max(plan.peak_in_flight) <= max(step.peak_in_flight)
        assert "if half of a backward is its weight gradient" in str(found)
    # Interleaved 1F1B would be the shortest of all here, and holds more than 1F1B.
    found = ge.diagnose(ge.simulate(ge.one_f_one_b(4, 8), ge.Costs(F=3, B=2)))
    assert found.shorter == ge.zero_bubble(4, 8)
    half = ge.simulate(ge.interleaved(4, 8, V=2), ge.Costs(F=1.5, B=1))
    assert half.makespan < found.shorter_makespan
    assert max(half.peak_in_flight) > 2 * 4
    for schedule in (ge.zero_bubble(4, 8), ge.gpipe(4, 8, "late"), ge.gpipe(1, 4)):
        found = ge.diagnose(ge.simulate(schedule))
        assert found.shorter is None
        assert found.shorter_makespan == pytest.approx(found.planned_makespan)


def test_a_schedule_that_is_added_to_the_recipes_is_proposed(monkeypatch):
    mine = {"mine": lambda K, M: ge.Schedule(ge.zero_bubble(K, M).rows, name="mine")}
    monkeypatch.setattr(recipes, "RECIPES", mine)
    assert ge.diagnose(ge.simulate(ge.one_f_one_b(4, 8))).shorter.name == "mine"


def test_the_sentences_are_three_at_most_and_what_gains_most_comes_first():
    for seed in range(5):
        for fault in ({"slow_rank": 2}, {"slow_link": 1}, {"waits_for_sends": 1}, {}):
            step = step_with_fault(ge.one_f_one_b(4, 8), [4, 4, 4, 4], seed=seed, **fault)
            found = ge.diagnose(step)
            told = sentences(found)
            assert 1 <= len(told) <= 3
            gains = [one.gain for one in found.findings]
            assert gains == sorted(gains, reverse=True)
            assert all(gain >= 0.01 * step.makespan for gain in gains)
            assert told[1:] == [one.sentence for one in found.findings[:2]]
            assert re.search(r"\(one step of 8 micro-batches, in which similar ops differ by 1\.\d%\)\.$", told[0])


def test_several_steps_have_medians():
    schedule = ge.one_f_one_b(3, 4)
    steps = [replay(schedule, lambda op, f=factor: f, unit="s") for factor in (1.0, 2.0, 9.0)]
    found = ge.diagnose(steps)
    assert (found.steps, found.makespan) == (3, steps[1].makespan)
    assert found.planned_makespan == pytest.approx(steps[1].makespan)
    assert f"of a step of {steps[1].makespan:.3g} s, in the median; the same order" in str(found)
    assert "3 steps of 4 micro-batches" in str(found)
    assert ge.diagnose(steps[:1]) == ge.diagnose(steps[0])
    with pytest.raises(ValueError, match="the steps run other ops, or in another order"):
        ge.diagnose([steps[0], ge.simulate(ge.gpipe(3, 4))])


def test_times_have_the_unit_of_the_step():
    for scale, shown in ((1, "18 s"), (1e-3, "18 ms"), (1e-6, "18 µs"), (1e-8, "0.18 µs")):
        step = ge.simulate(ge.one_f_one_b(2, 5), ge.Costs(F=scale, B=2 * scale, unit="s"))
        assert f"of a step of {shown};" in str(ge.diagnose(step))
    assert "of a step of 18;" in str(ge.diagnose(ge.simulate(ge.one_f_one_b(2, 5))))


def test_a_step_that_only_evaluates_has_a_bubble_and_no_other_schedule():
    spans = [span for span in ge.simulate(ge.gpipe(2, 3)).spans if span.op.kind == "F"]
    found = ge.diagnose(Timeline(spans, 2))
    assert found.bubble == pytest.approx(0.25)
    assert found.shorter is None


def test_what_cannot_be_diagnosed_is_said():
    with pytest.raises(ValueError, match="no step was given"):
        ge.diagnose([])
    for given in ("profile.json", [ge.gpipe(2, 2)]):
        with pytest.raises(TypeError, match=r"it must be a Timeline, such as ge\.load gives"):
            ge.diagnose(given)
    step = ge.simulate(ge.gpipe(2, 2))
    with pytest.raises(ValueError, match="layers has 3 numbers; it must have one for each of the 2 stages"):
        ge.diagnose(step, layers=[1, 2, 3])
    with pytest.raises(ValueError, match=r"layers\[1\] is 0"):
        ge.diagnose(step, layers=[1, 0])
    drawn = Timeline([Span(0, Op("B", 0, 0), 0, 1), Span(0, Op("F", 0, 0), 1, 2)], 1, source="drawn")
    with pytest.raises(ValueError, match="shows what cannot run"):
        ge.diagnose(drawn)


@pytest.mark.parametrize("schedule", [ge.interleaved(4, 8, 2), ge.zero_bubble_v(4, 8), ge.breadth_first(3, 6, 3)])
def test_stages_of_one_device_that_are_slow_alike_are_a_slow_device_and_one_slow_stage_is_not(schedule):
    for device in range(schedule.devices):
        slow, even = costs_of(schedule, lambda stage: 1.6 if home(schedule, stage) == device else 1), costs_of(schedule)  # noqa: B023
        found = ge.diagnose(ge.simulate(schedule, slow))
        assert found.cause == "slow rank"
        [told] = [one for one in found.findings if f"Device {device} is slow: its stages " in one.sentence]
        assert re.search(r"take 1\.[56]\d(, 1\.[56]\d)* and 1\.[56]\d times the median", told.sentence)
        # Up to what the other stages differ by: all of this device's are taken for as fast as the median.
        assert told.gain == pytest.approx(
            ge.simulate(schedule, slow).makespan - ge.simulate(schedule, even).makespan, rel=0.1
        )
        assert "balance_by_cost" not in str(found)
    for stage in range(schedule.stages):
        found = ge.diagnose(ge.simulate(schedule, costs_of(schedule, lambda one: 1.6 if one == stage else 1)))  # noqa: B023
        assert (found.slowest_stage, found.cause) == (stage, "")
        assert "is slow: its stages" not in str(found)


@pytest.mark.parametrize("overlap", [0, 0.5, 1], ids=["pairs hide nothing", "half", "all of the shorter"])
def test_a_slow_device_shows_in_dual_pipe_v_too_however_much_its_pairs_hide(overlap):
    schedule = recipes.dual_pipe_v(4, 8)
    assert schedule.pairs

    def told(factor):
        costs = costs_of(schedule, factor)
        return ge.diagnose(ge.simulate(schedule, ge.Costs(F=costs.F, B=costs.B, overlap=overlap)))

    for device, stages in enumerate([(0, 7), (1, 6), (2, 5), (3, 4)]):
        found = told(lambda stage: 1.6 if stage in stages else 1)  # noqa: B023
        assert found.cause == "slow rank"
        assert f"Device {device} is slow: its stages {stages[0]} and {stages[1]} take 1." in str(found)
        for one in stages:
            assert told(lambda stage: 1.6 if stage == one else 1).cause == ""  # noqa: B023


def measured(schedule, micro_batches, seed=0, slow_op=None):
    """A step whose ops differ by a hundredth; slow_op takes four times as long."""
    rng, planned = random.Random(seed), ge.Costs(micro_batches=micro_batches).durations(schedule)
    return replay(schedule, lambda op: planned(op) * rng.uniform(0.99, 1.01) * (4 if op == slow_op else 1))


@pytest.mark.parametrize("schedule", [ge.one_f_one_b(4, 8), ge.gpipe(3, 8), ge.interleaved(2, 8, 2)])
def test_micro_batches_that_do_not_cost_the_same_are_told_with_what_packing_and_order_give(schedule):
    sizes = [1, 1, 1, 3, 1, 0.5, 2, 1]
    found = ge.diagnose(measured(schedule, sizes))
    assert found.micro_batches == pytest.approx(sizes, rel=0.03)
    assert found.spread < 0.01
    assert found.planned_makespan == pytest.approx(found.makespan, rel=0.02)
    [told] = [one for one in found.findings if "Micro-batches do not cost the same" in one.sentence]
    assert re.search(r"micro-batch 3 takes (2\.9|3\.0)\d times the median, on every stage, and the ch", told.sentence)
    assert re.search(r"the cheapest 0\.(49|50|51) times; similar ops differ by 0\.\d%\.", told.sentence)
    packed = ge.simulate(schedule, ge.Costs(micro_batches=[sum(sizes) / 8] * 8)).makespan
    said = re.search(
        r"would take ([\d.]+), not ([\d.]+)(?:; in the order ([\d, ]+) it would take ([\d.]+))?\.$", told.sentence
    )
    assert float(said[1]) == pytest.approx(packed, rel=0.02)
    assert float(said[2]) == pytest.approx(found.planned_makespan, rel=0.01)
    if said[3]:
        moved = [sizes[int(m)] for m in said[3].split(", ")]
        assert float(said[4]) == pytest.approx(ge.simulate(schedule, ge.Costs(micro_batches=moved)).makespan, rel=0.02)
        assert float(said[4]) < float(said[2])
    assert told.gain == pytest.approx(float(said[2]) - min(float(said[1]), float(said[4] or said[1])), abs=0.1)


def test_an_op_as_long_as_its_micro_batch_makes_it_is_no_slow_op():
    costs = ge.Costs(send=1, micro_batches=[1, 1, 1, 3, 1, 1, 1, 1])
    said = sentences(ge.diagnose(ge.simulate(ge.one_f_one_b(4, 8), costs)))[0]
    assert "is lost to late messages, or to single slow ops (one step" in said


def test_chance_a_slow_op_and_a_slow_stage_are_not_micro_batches_that_cost_more():
    schedule = ge.one_f_one_b(4, 8)
    on_one_stage = [[3, 1, 1, 3, 1, 1, 1, 1], *[[1] * 8] * 3]
    for step in (
        *(measured(schedule, [1] * 8, seed) for seed in range(20)),
        measured(schedule, [1] * 8, slow_op=Op("F", 3, 1)),
        ge.simulate(schedule, ge.Costs(F=[1, 1, 2, 1], B=[2, 2, 4, 2])),
        measured(schedule, on_one_stage),
        measured(ge.one_f_one_b(2, 8), on_one_stage[:2]),
    ):
        found = ge.diagnose(step)
        assert found.micro_batches == (1,) * 8
        assert "Micro-batches do not" not in str(found)


def test_slow_layers_of_a_device_are_told_from_a_slow_device_by_their_factors():
    """Stages 1 and 5 are on device 1: both slow, but not alike, as where layers differ."""
    schedule = ge.interleaved(4, 8, 2)
    found = ge.diagnose(ge.simulate(schedule, costs_of(schedule, {1: 1.1, 5: 1.8}.get)))
    assert (found.slowest_stage, found.cause) == (5, "")


def home(schedule, stage):
    return schedule.device_of_stage[stage]


def costs_of(schedule, factor=lambda _: 1):
    """Of stages that differ by a twentieth; factor: of a stage, None for 1."""
    each = [(factor(stage) or 1) * (1 + stage % 2 / 20) for stage in range(schedule.stages)]
    return ge.Costs(F=each, B=[2 * one for one in each])


def with_messages(schedule, slow, sender):
    """A step of unit costs whose messages take a twentieth, but one and a half on the link `slow`; sender: whether the
    device that sends is held up for as long."""
    spans, arrivals, free = {}, {}, [0.0] * schedule.devices
    for device, op, _ in schedule.steps:
        start = max([free[device], *(arrivals.get((need, device), 0.0) for need in schedule.needs(op))])
        spans[op] = Span(device, op, start, start + (1 if op.kind == "F" else 2))
        goal = device + (1 if op.kind == "F" else -1)
        there = spans[op].end + (1.5 if (device, goal) == slow else 0.05)
        arrivals[op, goal] = there
        free[device] = there if sender and (device, goal) == slow else spans[op].end
    return Timeline(spans.values(), schedule.devices)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_time_that_the_sender_takes_is_the_senders_and_not_the_links(schedule):
    for slow in [(k, k + 1) for k in range(schedule.devices - 1)] + [(k + 1, k) for k in range(schedule.devices - 1)]:
        text = str(ge.diagnose(with_messages(schedule, slow, sender=True)))
        assert f"Device {slow[0]} is slow to send: after an op whose message device {slow[1]} waits for" in text, slow
        assert "it begins nothing for 1.5 in the median" in text
        text = str(ge.diagnose(with_messages(schedule, slow, sender=False)))
        assert f"Messages are late, most of all from device {slow[0]} to {slow[1]}, by 1.5 in the median" in text, slow
        assert "slow to send" not in text


def with_exchanges(schedule, costs, exchanges):
    """A simulated step as if it had been measured. exchanges: of an op, given its kind and stage."""
    step = ge.simulate(schedule, costs)
    found = {span.op: one for span in step.spans if (one := exchanges(span.op.kind, span.op.stage))}
    return Timeline(step.spans, step.devices, source="measured", unit="s", exchanges=found)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_what_exchanges_cost_is_what_the_step_is_longer_than_without(schedule):
    K = schedule.devices
    part = {"F": 1.0, "B": 3.0}
    step = with_exchanges(
        schedule, ge.Costs(F=4, B=8), lambda kind, _: Exchange(part[kind] + 0.5, part[kind], 0, 100, 100)
    )
    without = ge.simulate(schedule, ge.Costs(F=3, B=5))
    found = ge.diagnose(step)
    assert (found.exchange, found.exposed, found.imbalance) == pytest.approx((5 / 12, 4 / 12, 1))
    [told] = [one for one in found.findings if "exchange between experts" in one.sentence]
    assert told.gain == pytest.approx(step.makespan - without.makespan)
    assert "takes 41.7% of the ops' time, and 33.3% is exposed" in told.sentence
    assert f"a step of {without.makespan:.3g} s, not {step.makespan:.3g} s" in told.sentence
    assert not any("Messages are late" in one.sentence or "slowest" in one.sentence for one in found.findings)

    more = [1.5 if k == 1 else 0.0 for k in range(K)]
    costs = ge.Costs(F=[4 + one for one in more], B=[8 + 2 * one for one in more])
    part = {"F": 1, "B": 2}
    step = with_exchanges(
        schedule, costs, lambda kind, k: Exchange(0, 0, more[k] * part[kind], 100, 160 if k == 1 else 100)
    )
    found = ge.diagnose(step)
    assert found.imbalance == pytest.approx(1.6)
    [told] = [one for one in found.findings if "not used evenly" in one.sentence]
    assert told.gain == pytest.approx(step.makespan - ge.simulate(schedule, ge.Costs(F=4, B=8)).makespan)
    assert "on stage 1 the busiest device gets 1.60 times the mean" in told.sentence
    # Stage 1 takes longer than others for its experts' imbalance, and for nothing else.
    assert not any("slowest" in one.sentence or "exchange" in one.sentence for one in found.findings)


def test_without_an_exchange_no_expert_is_blamed():
    for seed in range(3):
        for fault in ({}, {"slow_rank": 1}, {"slow_link": 1}, {"stumbles": Op("F", 5, 0)}):
            found = ge.diagnose(step_with_fault(ge.one_f_one_b(4, 8), [4] * 4, seed=seed, **fault))
            assert (found.exchange, found.exposed, found.imbalance) == (0, 0, 1)
            assert "experts" not in found.headline + "".join(one.sentence for one in found.findings)
