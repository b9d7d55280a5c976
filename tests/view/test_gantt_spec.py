"""What the page is sent, against arithmetic of its own and the oracle's rules."""

import json
from itertools import pairwise

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import Span, Timeline, read_diagram
from gpipe_edu.view.gantt.spec import specs, to_json
from tests.each import each
from tests.oracle import inputs

UNEVEN = ge.Costs(F=[1, 2, 1.5, 0.7], B=[2, 3, 5, 1.4], send=0.5)
PLANS = {
    "gpipe": ge.simulate(ge.gpipe(4, 8)),
    "naive": ge.simulate(ge.naive(3, 2)),
    "late": ge.simulate(ge.gpipe(3, 4, recompute="late")),
    "early": ge.simulate(ge.gpipe(4, 4, recompute="early"), UNEVEN),
    "1f1b": ge.simulate(ge.one_f_one_b(4, 6), UNEVEN),
    "zero bubble": ge.simulate(ge.zero_bubble(4, 5)),
    "interleaved": ge.simulate(ge.interleaved(2, 4, 3)),
    "one device": ge.simulate(ge.gpipe(1, 1)),
}


def op_at(spec, index):
    return spec["kind"][index], spec["micro_batch"][index], spec["stage"][index]


@pytest.fixture(params=PLANS)
def plan(request):
    return PLANS[request.param]


def test_columns_are_the_spans_lane_after_lane(plan):
    (spec,) = specs([plan])
    assert spec["K"] == plan.devices
    assert spec["first"][0] == 0
    assert spec["first"][-1] == len(plan.spans) == len(spec["kind"])
    found = []
    for device, (one, two) in enumerate(pairwise(spec["first"])):
        found += [(device, *op_at(spec, n), spec["start"][n], spec["stop"][n]) for n in range(one, two)]
    assert sorted(found) == sorted((s.device, *s.op, round(s.start, 9), round(s.end, 9)) for s in plan.spans)


def test_every_op_has_the_needs_that_the_rules_give_it(plan):
    (spec,) = specs([plan])
    ops = [op_at(spec, n) for n in range(len(spec["kind"]))]
    stages = 1 + max(k for _, _, k in ops)
    for n, pair in enumerate(zip(*spec["needs"], strict=True)):
        assert {ops[need] for need in pair if need >= 0} == set(inputs(ops[n], ops, stages))


def test_bubbles_are_all_the_idle_time_and_name_what_ends_them(plan):
    (spec,) = specs([plan])
    idle = spec["idle"]
    for device in range(plan.devices):
        here = [n for n, lane in enumerate(idle["device"]) if lane == device]
        assert sum(idle["stop"][n] - idle["start"][n] for n in here) == pytest.approx(plan.idle(device))
    for stop, following, cause in zip(idle["stop"], idle["next"], idle["cause"], strict=True):
        if following < 0:
            assert stop == spec["end"]
            continue
        assert spec["start"][following] == pytest.approx(stop)
        arrives = {need: spec["stop"][need] + plan.send for need in (spec["needs"][0][following], cause)}
        assert arrives[cause] == pytest.approx(stop)


def test_memory_counts_what_is_held_at_every_moment():
    plan = PLANS["1f1b"]
    (spec,) = specs([plan])
    for device, (times, held) in enumerate(spec["memory"]):
        row = plan.row(device)
        for time, amount in zip(times, held, strict=True):
            begun = sum(span.op.kind == "F" and span.start <= time for span in row)
            done = sum(span.op.kind == "B" and span.end <= time for span in row)
            assert amount == begun - done


@each("V", [2, 3, 5])
def test_a_device_with_several_stages_is_charged_for_the_parts_that_it_holds(V):
    plan = ge.simulate(ge.interleaved(2, 4, V), ge.Costs(F=1 / V, B=2 / V))
    (spec,) = specs([plan])
    for device, (times, held) in enumerate(spec["memory"]):
        row = plan.row(device)
        for time, amount in zip(times, held, strict=True):
            begun = sum(span.op.kind == "F" and round(span.start, 9) <= time for span in row)
            done = sum(span.op.kind == "B" and round(span.end, 9) <= time for span in row)
            assert amount == pytest.approx((begun - done) / V, abs=1e-9)
        assert max(held) * V == pytest.approx(spec["peaks"][device]), "in flight still counts every stage"
        assert held[-1] == 0


def test_figures_and_stats_are_the_closed_forms():
    (spec,) = specs([PLANS["gpipe"]])
    assert spec["stats"]["bubble_fraction"] == pytest.approx(3 / 11)
    assert spec["stats"]["makespan"] == 33
    assert spec["figures"] == [
        "makespan 33",
        "bubble 27.3% (idle / total)",
        "useful work 72.7%",
        "peak memory 8 micro-batches",
    ]
    assert spec["heading"] == ["gpipe", "planned, time in cost units", "4 devices, 8 micro-batches"]


@each(
    "schedule, words",
    [
        (ge.one_f_one_b(4, 8), "peak memory 4 micro-batches"),
        (ge.gpipe(1, 1), "peak memory 1 micro-batch"),
        (ge.gpipe(4, 8, recompute="late"), "peak memory 1 micro-batch + 8 stage inputs"),
        (ge.interleaved(4, 8, 2), "peak memory 5.5 micro-batches (all stages of a device)"),
        (ge.interleaved(2, 2, 3), "peak memory 2 micro-batches (all stages of a device)"),
    ],
)
def test_peak_memory_names_the_stage_inputs_that_recompute_keeps(schedule, words):
    assert specs([ge.simulate(schedule)])[0]["figures"][-1] == words


def test_the_critical_path_is_there_on_demand_and_as_long_as_the_step():
    plan = ge.simulate(ge.gpipe(4, 4))
    assert specs([plan])[0]["critical"] == []
    (spec,) = specs([plan], critical_path=True)
    path = spec["critical"]
    assert sum(spec["stop"][n] - spec["start"][n] for n in path) == spec["end"]
    assert spec["start"][path[0]] == 0
    assert all(spec["stop"][one] == spec["start"][two] for one, two in pairwise(path))


def test_times_count_from_the_start_and_are_told_in_a_fitting_unit():
    spans = [Span(d, op, 100 + a * 1e-3, 100 + b * 1e-3) for d, op, a, b in PLANS["gpipe"].spans]
    run = Timeline(spans, 4, name="run", source="measured", unit="s")
    (spec,) = specs([run])
    assert (spec["unit"], spec["source"], spec["shown"]) == ("s", "measured", [1000.0, "ms"])
    assert spec["start"][0] == 0
    assert spec["end"] == pytest.approx(0.033)
    assert spec["figures"][0] == "makespan 33 ms"
    assert all(time == round(time, 9) for time in spec["stop"])


def test_a_step_ends_in_an_update_and_forwards_alone_do_not():
    forwards = Timeline([Span(k, ge.Op("F", 0, k), k, k + 1) for k in range(2)], 2)
    assert [spec["flush"] for spec in specs([ge.simulate(ge.gpipe(2, 2)), forwards])] == [[9], []]


def test_several_specs_are_told_in_one_unit():
    short, long = (
        Timeline([Span(d, op, a * size, b * size) for d, op, a, b in PLANS["gpipe"].spans], 4, unit="s")
        for size in (1e-5, 1)
    )
    assert [spec["shown"] for spec in specs([short, long])] == [[1, "s"], [1, "s"]]


def test_a_large_step_stays_about_a_megabyte():
    (spec,) = specs([ge.simulate(ge.one_f_one_b(64, 256))])
    text = to_json(spec)
    assert len(spec["kind"]) == 2 * 64 * 256
    assert len(text) < 1_300_000
    assert json.loads(text) == json.loads(json.dumps(spec))


def test_a_drawing_that_cannot_be_names_what_starts_too_early_and_what_it_needs():
    (found,) = specs([read_diagram("F0 F1 . . B1 B0\n. F0 F1 . B1 B0")])
    name = [f"{kind}{m}@{k}" for kind, m, k in zip(found["kind"], found["micro_batch"], found["stage"], strict=True)]
    assert [[name[one], name[two]] for one, two in found["broken"]] == [["B1@0", "B1@1"], ["B0@0", "B0@1"]]
    assert specs([ge.simulate(ge.gpipe(2, 2))])[0]["broken"] == []
