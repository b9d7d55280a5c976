"""What the page is sent of a schedule that cannot run: ops, arrows and words are those of its standstill."""

import json
import random

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import Schedule
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.gantt.spec import stuck_spec, to_json
from gpipe_edu.view.measures import TimeUnit
from tests.amount import fewer
from tests.each import each

BROKEN = {
    "deadlock": "F0 B0 F1 B1\nF0 F1 B1 B0",
    "order": "B0 F0\nF0 B0",
    "missing": "F0 B0\nF0",
    "duplicate": "F0 F0 B0",
    "split-stage": "F0@1 B0@1 F0 B0\nF0@1",
    "mixed": "F0 B0 C0",
    "out-of-range": "F3 B3",
    "recompute": "F0 F1 C0 C1\nC1 F0 F1 C0",
}


def sent(still):
    spec = stuck_spec(still, TimeUnit(1, ""))
    return json.loads(to_json(spec))


def names(spec):
    return [f"{kind}{m}@{k}" for kind, m, k in zip(spec["kind"], spec["micro_batch"], spec["stage"], strict=True)]


def check(still):
    spec, ran = sent(still), set(still.ran)
    assert names(spec) == [str(span.op) for device in range(still.devices) for span in still.row(device)]
    for device in range(still.devices):
        row = still.row(device)
        first, end = spec["first"][device : device + 2]
        assert spec["start"][first:end] == [span.start for span in row]
        assert spec["stop"][first:end] == [span.end for span in row]
        assert [index < spec["stops"][device] for index in range(first, end)] == [span in ran for span in row]
    name = names(spec)
    assert [[name[one], name[two], turn] for one, two, turn in spec["broken"]] == [
        [str(arrow.start.op), str(arrow.end.op), arrow.turn] for arrow in still.arrows
    ]
    assert sorted(name[index] for index in spec["wrong"]) == sorted(str(span.op) for span in still.wrong)
    return spec


@pytest.mark.parametrize("code", BROKEN)
def test_every_broken_rule_is_sent_as_the_standstill_has_it(code):
    still = standstill(Schedule.parse(BROKEN[code], name="mine"))
    spec = check(still)
    assert spec["heading"][:2] == ["mine", "cannot run"]


@each("seed", range(fewer(40)))
def test_so_is_every_shuffled_schedule_with_costs_of_its_own(seed):
    rng = random.Random(seed)
    rows = [list(row) for row in ge.gpipe(3, 4, recompute="early").rows]
    for row in rows:
        rng.shuffle(row)
    schedule = Schedule(rows)
    assert schedule.problems()
    check(standstill(schedule, ge.Costs(F=[1, 2, 0], B=[0.5, 3, 2], send=0.25, link=0.5)))


def test_needs_are_those_of_the_rules_and_the_figure_counts_what_runs():
    spec = sent(standstill(Schedule.parse(BROKEN["deadlock"])))
    name = names(spec)
    here = name.index("B0@0")
    assert {name[spec["needs"][column][here]] for column in (0, 1)} == {"F0@0", "B0@1"}
    assert spec["figures"] == ["ops that run 2 of 8"]
    assert sent(standstill(Schedule.parse(BROKEN["missing"])))["figures"] == [], "all that is there would run"
    assert sent(standstill(Schedule.parse(BROKEN["missing"])))["rule"] == "lacks that one"
