"""Differences told in words, with figures worked out here."""

import gpipe_edu as ge
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.view.gantt.differences import differences

GPIPE, ONE = ge.simulate(ge.gpipe(4, 8)), ge.simulate(ge.one_f_one_b(4, 8))


def test_one_timeline_differs_from_nothing():
    assert differences([GPIPE]) == []


def test_equal_makespans_are_called_equal_and_memory_is_told():
    length, rest = differences([GPIPE, ONE])
    assert length == "“1f1b” takes 33, exactly as long as “gpipe”."
    assert rest == (
        "Bubble 27.3% against 27.3%, useful work 72.7% against 72.7%, "
        "peak memory 4 micro-batches against 8 micro-batches."
    )


def test_a_smaller_bubble_that_takes_longer_is_pointed_out():
    late = ge.simulate(ge.gpipe(4, 16, recompute="early"))
    none = ge.simulate(ge.gpipe(4, 16))
    words = differences([none, late])
    assert words[0] == (f"“gpipe early recompute” takes 73, 16 ({16 / 57:.1%}) longer than “gpipe” with 57.")
    assert words[2].startswith("A smaller bubble, and yet slower")
    assert not any("yet slower" in line for line in differences([late, none]))
    assert "16 (21.9%) shorter than" in differences([late, none])[0]


def test_a_schedule_of_more_stages_at_the_old_costs_is_called_a_larger_model():
    one, two = ge.simulate(ge.one_f_one_b(4, 8)), ge.simulate(ge.interleaved(4, 8, 2))
    words = differences([one, two])
    assert words[2].startswith("A stage costs the same in both, and “interleaved V=2” has 8 of them, “1f1b” 4")
    assert words[2].endswith("F and B are 4/8 of that size.")
    halved = ge.simulate(ge.interleaved(4, 8, 2), ge.Costs(F=0.5, B=1))
    assert not any("larger model" in line for line in [*differences([one, halved]), *differences([two, one])])


def test_plan_and_run_are_held_against_each_other_op_by_op():
    plan = Timeline([Span(d, op, a / 1e3, b / 1e3) for d, op, a, b in GPIPE.spans], 4, name="gpipe", unit="s")
    spans = []
    for device, op, start, end in plan.spans:
        longer = 1e-3 if (op.label, op.stage) == ("B0", 0) else 0
        spans.append(Span(device, op, start, end + longer))
    run = Timeline(spans, 4, name="gpipe", source="measured", unit="s")
    words = differences([plan, run])
    assert words[0] == "“gpipe, measured” takes 34 ms, 1 ms (3.0%) longer than “gpipe, planned” with 33 ms."
    # 32 backwards of 2 ms each, and 1 ms more: 1 / 64
    assert words[-2] == "Time spent in ops, measured against planned: forward +0.0%, backward +1.6%."
    assert words[-1] == "Furthest off: B0 of stage 0 on device 0 took 3 ms, planned 2 ms."


def test_equal_names_are_told_apart():
    assert differences([GPIPE, GPIPE])[0] == "“gpipe, planned (2)” takes 33, exactly as long as “gpipe, planned (1)”."


def test_three_are_each_held_against_the_first():
    words = differences([GPIPE, ONE, ge.simulate(ge.naive(4, 8))])
    assert [line for line in words if "takes" in line] == [
        "“1f1b” takes 33, exactly as long as “gpipe”.",
        "“naive” takes 96, 63 (190.9%) longer than “gpipe” with 33.",
    ]


def test_ops_that_take_as_long_but_at_other_times_are_called_so():
    plan = Timeline([Span(d, op, a / 1e3, b / 1e3) for d, op, a, b in GPIPE.spans], 4, name="gpipe", unit="s")
    later = [Span(d, op, a + (a > 0) * 1e-3, b + (a > 0) * 1e-3) for d, op, a, b in plan.spans]
    words = differences([plan, Timeline(later, 4, name="gpipe", source="measured", unit="s")])
    assert words[-1] == (
        "Time spent in ops, measured against planned: as much in all, so what differs is when each op could start."
    )


def test_more_micro_batches_that_take_as_long_are_a_larger_mini_batch_and_no_slower_ops():
    few, many = ge.simulate(ge.gpipe(4, 8)).with_name("few"), ge.simulate(ge.gpipe(4, 16)).with_name("many")
    assert differences([few, many])[2:] == [
        "A micro-batch takes as long in both, and “many” has 16 of them, “few” 8: that is a larger mini-batch."
    ]
    half = ge.simulate(ge.gpipe(4, 16), ge.Costs(F=0.5, B=1)).with_name("cut finer")
    assert len(differences([few, half])) == 2
