"""A schedule that cannot run is drawn up to where it stops; the independent player of tests/oracle.py says where."""

import random

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule import Op, Schedule
from gpipe_edu.timeline.stuck_schedule import standstill
from gpipe_edu.view.layout import layout
from tests.amount import fewer
from tests.each import each
from tests.oracle import play

DEADLOCK = "F0 B0 F1 B1\nF0 F1 B1 B0"


def stopped(text):
    return standstill(Schedule.parse(text))


def names(spans):
    return [f"{span.op} on {span.device}" for span in spans]


def links(still):
    return [(str(start.op), str(end.op), turn) for start, end, turn in still.arrows]


def test_a_deadlock_is_a_circle_of_arrows():
    still = stopped(DEADLOCK)
    assert names(still.ran) == ["F0@0 on 0", "F0@1 on 1"]
    assert names(still.stuck) == [
        "B0@0 on 0", "F1@0 on 0", "B1@0 on 0", "F1@1 on 1", "B1@1 on 1", "B0@1 on 1",
    ]  # fmt: skip
    assert links(still) == [
        ("B0@0", "B0@1", False), ("B0@1", "F1@1", True), ("F1@1", "F1@0", False), ("F1@0", "B0@0", True),
    ]  # fmt: skip
    assert still.arrows[-1].end == still.arrows[0].start, "a circle"


def test_where_what_is_waited_for_stands_first_there_is_no_turn():
    still = stopped("F0@3 F0@0 B0@3 B0@0\nF0@1 B0@1\nF0@2 B0@2")
    assert links(still) == [
        ("F0@3", "F0@2", False),
        ("F0@2", "F0@1", False),
        ("F0@1", "F0@0", False),
        ("F0@0", "F0@3", True),
    ]


@each("seed", range(fewer(60)))
def test_what_has_run_is_what_an_independent_player_can_run(seed):
    rng = random.Random(seed)
    rows = [list(row) for row in ge.one_f_one_b(3, 3).rows]
    for row in rows:
        rng.shuffle(row)
    schedule = Schedule(rows)
    if not schedule.problems():
        return
    still = standstill(schedule)
    assert {tuple(span.op) for span in still.ran} == set(play([[tuple(op) for op in row] for row in rows]))
    assert sorted(span.op for span in (*still.ran, *still.stuck)) == sorted(op for row in rows for op in row)
    assert still.arrows
    for device, row in enumerate(rows):
        assert [span.op for span in still.row(device)] == row, "side by side, in their order"
        ends = [span.end for span in still.row(device)]
        assert ends == sorted(ends)


@pytest.mark.parametrize(
    ("code", "text", "arrows", "absent"),
    [
        ("order", "F0 B0\nB0 F0", [("B0@1", "F0@1")], []),
        ("split-stage", "F0 F1 B1\nF0 F1 B1 B0 B0@0", [("B0@0", "B0@0")], ["B0@0 on 0"]),
        ("duplicate", "F0 F1 F0 B1 B0\nF0 F1 B1 B0", [("F0@0", "F0@0")], []),
        ("missing", "F0 F1 B1 B0\nF0 F1 B0", [("F1@1", "B1@1")], ["B1@1 on 1"]),
        ("missing", "F0 B0\nB0", [("B0@1", "F0@1")], ["F0@1 on 1"]),
        ("mixed", "F0 B0\nF0 B0 W0", [("W0@1", "B0@1")], []),
        ("out-of-range", "F1 B1", [], []),
    ],
)
def test_every_broken_rule_has_its_arrow(code, text, arrows, absent):
    still = stopped(text)
    assert still.problem.code == code
    assert [(str(start.op), str(end.op)) for start, end, _ in still.arrows] == arrows
    assert names(still.absent) == absent
    assert still.problem.op in [span.op for span in still.wrong] or absent


def test_times_are_those_of_the_costs_given():
    still = standstill(Schedule.parse(DEADLOCK), ge.Costs(F=[2, 3], B=1, send=0.5))
    assert [(span.start, span.end) for span in still.ran] == [(0, 2), (2.5, 5.5)]


def test_one_that_can_run_is_refused():
    for schedule in (ge.gpipe(2, 2), Schedule([]), Schedule([[], []])):
        with pytest.raises(ValueError, match="only a schedule that has ops and cannot run"):
            standstill(schedule)


def test_a_device_without_ops_is_drawn_empty():
    still = stopped("F0 B0\n-")
    assert still.problem.code == "empty"
    assert still.row(1) == []
    assert still.ran[0].op == Op("F", 0, 0)


def test_thousands_of_ops_that_never_run_are_drawn_without_delay():
    rows = [list(reversed(row)) for row in ge.gpipe(4, 500).rows]
    picture = layout(standstill(Schedule(rows)))
    assert len(picture.outlines) == 4000


def test_what_has_run_is_timed_as_the_simulation_times_it_links_included():
    """The forwards run in both; a message that waits for its link is late in both."""
    costs = ge.Costs(F=1, B=[2, 3], send=0.5, link=1.5)
    whole = ge.simulate(Schedule.parse("F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2"), costs)
    still = standstill(Schedule.parse("F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1"), costs)
    times = {span.op: span for span in whole.spans}
    forwards = [span for span in still.ran if span.op.kind == "F"]
    assert len(forwards) == 6
    assert [times[span.op] for span in forwards] == forwards
    assert max(span.start for span in forwards) == 1 + 3 * 1.5 + 0.5, "F2@1: its message was the third on the link"
