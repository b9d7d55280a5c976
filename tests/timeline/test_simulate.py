"""The simulator against the oracle's times, exactly, on integers."""

from hypothesis import given, settings

import gpipe_edu as ge
from gpipe_edu import Costs, Op, Schedule
from gpipe_edu.timeline import replay
from tests.oracle import expected_code, plain, times
from tests.recipes import recompute_and_split, small_schedules
from tests.refusals import refusals
from tests.strategies import RANDOM, priced, slipped

LEGAL = [*small_schedules(4, 5), *(recompute_and_split(K, M) for K in (1, 2, 3) for M in (1, 2, 3))]


def as_times(timeline):
    return {tuple(span.op): (span.start, span.end) for span in timeline.spans}


def assert_the_oracles(schedule, costs, table, send):
    expected = times(plain(schedule), lambda op: table[op[0]][op[2]], send)
    timeline = ge.simulate(schedule, costs)
    assert as_times(timeline) == expected
    again = ge.simulate(Schedule([list(row) for row in schedule.rows]), costs)
    assert again == timeline
    assert again.spans == timeline.spans


@settings(max_examples=300)
@given(priced(LEGAL))
def test_every_start_and_end_is_the_oracles_under_uneven_costs_and_sending(case):
    assert_the_oracles(*case)


@settings(max_examples=300)
@given(priced(LEGAL), RANDOM)
def test_shuffled_but_legal_schedules_agree_with_the_oracle_too(case, rng):
    schedule, *costs = case
    rows = plain(schedule)
    for _ in range(4):
        shuffled = slipped(rng, rows, ["swap neighbours"])
        rows = rows if expected_code(shuffled) else shuffled
    assert_the_oracles(Schedule([Op(*op) for op in row] for row in rows), *costs)


def test_every_op_has_one_span_on_its_own_device_and_devices_keep_their_order():
    for schedule in LEGAL:
        for costs in (Costs(), Costs(F=0), Costs(F=0, B=0)):
            timeline = ge.simulate(schedule, costs)
            assert [[span.op for span in timeline.row(device)] for device in range(schedule.devices)] == [
                list(row) for row in schedule.rows
            ]


def test_the_smallest_pipeline_by_hand():
    spans = ge.simulate(ge.gpipe(2, 1)).spans
    assert [(span.device, str(span.op), span.start, span.end) for span in spans] == [
        (0, "F0@0", 0, 1),
        (1, "F0@1", 1, 2),
        (1, "B0@1", 2, 4),
        (0, "B0@0", 4, 6),
    ]


def test_sending_delays_the_use_on_another_device_only_and_keeps_no_device_busy():
    # Forward over 2 boundaries and back over 2.
    assert ge.simulate(ge.naive(3, 1), Costs(send=10)).makespan == 9 + 4 * 10
    assert ge.simulate(ge.naive(1, 5), Costs(send=10)).makespan == 15
    two_stages_on_one_device = Schedule.parse("F0@0 F0@1 B0@1 B0@0")
    assert ge.simulate(two_stages_on_one_device, Costs(send=10)).makespan == 6
    timeline = ge.simulate(ge.gpipe(3, 4), Costs(send=10))
    assert [timeline.busy(device) for device in range(3)] == [12, 12, 12]


def test_ops_that_cost_nothing_take_no_time():
    for schedule in LEGAL:
        timeline = ge.simulate(schedule, Costs(F=0, B=0))
        assert timeline.makespan == 0
        assert timeline.bubble_fraction == 0
        assert len(timeline.spans) == sum(map(len, schedule.rows))


def test_a_planned_timeline_says_so_and_carries_the_name_and_the_time_of_sending():
    timeline = ge.simulate(ge.gpipe(2, 2), Costs(send=3))
    assert (timeline.source, timeline.measured, timeline.unit) == ("planned", False, "")
    assert (timeline.name, timeline.send, timeline.devices) == ("gpipe", 3, 2)


@given(RANDOM)
def test_replay_takes_a_duration_for_every_single_op(rng):
    schedule = ge.one_f_one_b(3, 4)
    durations = {op: rng.randrange(10) for row in schedule.rows for op in row}
    timeline = replay(schedule, durations.__getitem__, send=2, source="replayed", unit="s")
    assert as_times(timeline) == times(plain(schedule), lambda op: durations[op], 2)
    assert (timeline.source, timeline.measured, timeline.unit) == ("replayed", False, "s")


ROWS = [[Op("F", 0, 0), Op("B", 0, 0)]]

test_what_cannot_be_simulated = refusals(
    (ge.ScheduleError, "B0@0 is missing", lambda: replay(Schedule.parse("F0"), lambda op: 1)),
    (TypeError, "(?i)schedule", ge.simulate, ["F0 B0", None, ge.gpipe, ROWS, 3]),
    (TypeError, "(?i)costs", lambda costs: ge.simulate(ge.gpipe(2, 2), costs), [2, None, {"F": 1}, [1, 2], "1"]),
)
