"""The simulator against the oracle's times, exactly, on integers."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given

import gpipe_edu as ge
from gpipe_edu import Costs, Op, Schedule
from gpipe_edu.schedule.recipes import RECIPES
from gpipe_edu.timeline import replay
from gpipe_edu.timeline.ends import simulate_ends
from tests.amount import examples
from tests.each import each
from tests.oracle import events, expected_code, plain, times
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


@examples(300)
@given(priced(LEGAL))
def test_every_start_and_end_is_the_oracles_under_uneven_costs_and_sending(case):
    assert_the_oracles(*case)


@examples(300)
@given(priced(LEGAL), RANDOM)
def test_shuffled_but_legal_schedules_agree_with_the_oracle_too(case, rng):
    schedule, *costs = case
    rows = plain(schedule)
    for _ in range(4):
        shuffled = slipped(rng, rows, ["swap neighbours"])
        rows = rows if expected_code(shuffled) else shuffled
    assert_the_oracles(Schedule([Op(*op) for op in row] for row in rows), *costs)


@examples(2000)
@given(priced(LEGAL), RANDOM)
def test_links_that_carry_one_message_at_a_time_are_as_in_the_event_driven_simulator(case, rng):
    schedule, costs, table, send = case
    rows, link = slipped(rng, plain(schedule), ["swap neighbours"]), rng.choice((0, 1, 2, 5))
    rows = plain(schedule) if expected_code(rows) else rows
    timeline = ge.simulate(Schedule([Op(*op) for op in row] for row in rows), replace(costs, link=link))
    ran, carried = events(rows, lambda op: table[op[0]][op[2]], send, link)
    assert as_times(timeline) == ran
    messages = {tuple(message.op): message[3:] for message in timeline.messages}
    assert messages == (carried if link else {})
    home = {op: device for device, row in enumerate(rows) for op in row}
    assert all(message.source == home[tuple(message.op)] != message.target for message in timeline.messages)


@examples(3000)
@given(priced(LEGAL), RANDOM)
def test_micro_batches_of_unequal_cost_are_as_in_the_event_driven_simulator(case, rng):
    """With their messages, or stage by stage and with messages that are alike."""
    schedule, costs, table, send = case
    stages, M, link = schedule.stages, schedule.micro_batches, rng.choice((0, 1, 2, 5))
    sizes = [rng.choice((0, 1, 1, 2, 7)) for _ in range(M)]
    per_stage = [[rng.choice((0, 1, 1, 3)) for _ in range(M)] for _ in range(stages)]
    given_, times_usual, busy = rng.choice(
        [
            (sizes, [sizes] * stages, lambda op: link * sizes[op[1]]),
            (per_stage, per_stage, link),
        ]
    )
    unequal = replace(costs, link=link, micro_batches=given_)
    timeline = ge.simulate(schedule, unequal)
    ran, carried = events(plain(schedule), lambda op: table[op[0]][op[2]] * times_usual[op[2]][op[1]], send, busy)
    assert as_times(timeline) == ran
    assert {tuple(message.op): message[3:] for message in timeline.messages} == (carried if link else {})


@given(priced(LEGAL))
def test_micro_batches_that_cost_the_same_change_nothing(case):
    schedule, costs, _, _ = case
    M = schedule.micro_batches
    for even in ([1] * M, [[1] * M] * schedule.stages):
        alike = replace(costs, link=2, micro_batches=even)
        assert ge.simulate(schedule, alike) == ge.simulate(schedule, replace(costs, link=2))
        assert all(alike.of(op, schedule) == costs.of(op, schedule) for row in schedule.rows for op in row)


def test_a_step_is_no_shorter_than_what_its_busiest_link_carries():
    for recipe in (ge.gpipe, ge.one_f_one_b, ge.zero_bubble):
        for K, M in [(2, 8), (4, 8), (4, 16)]:
            timeline = ge.simulate(recipe(K, M), Costs(link=5))
            # In front of the first message is a forward, behind the last a backward; both directions may be busy.
            assert timeline.makespan >= 5 * M + 1 + 1
    # By hand: two devices, four micro-batches; F0 leaves at 1, and from then on the link is always busy.
    timeline = ge.simulate(ge.gpipe(2, 4), Costs(link=5))
    forward = [message for message in timeline.messages if message.op.kind == "F"]
    assert [(message.start, message.end, message.there) for message in forward] == [
        (1, 6, 6), (6, 11, 11), (11, 16, 16), (16, 21, 21)
    ]  # fmt: skip


def test_the_critical_path_goes_over_links():
    timeline = ge.simulate(ge.gpipe(2, 4), Costs(link=5, send=2))
    path = timeline.critical_path()
    assert path[-1].end == timeline.end
    for before, after in pairwise(path):
        assert timeline.arrival(before, after.device) == after.start
    assert timeline.with_name("other").messages == timeline.messages


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
    (ValueError, "alone has 1 value", lambda alone: ge.simulate(ge.dual_pipe_v(2, 4), alone=alone), [[0.5]]),
    (TypeError, "(?i)schedule", ge.simulate, ["F0 B0", None, ge.gpipe, ROWS, 3]),
    (TypeError, "(?i)costs", lambda costs: ge.simulate(ge.gpipe(2, 2), costs), [2, None, {"F": 1}, [1, 2], "1"]),
)


@each("name", list(RECIPES))
def test_the_ends_are_those_of_the_timeline(name):
    for K, M in ((1, 3), (3, 1), (3, 7), (4, 8)):
        schedule = RECIPES[name](K, M)
        stages = range(schedule.stages)
        costs = ge.Costs(F=[1 + k % 3 for k in stages], B=[2 + k % 2 for k in stages], W=0.7, send=0.25, link=0.6)
        for alone in ((), [0.3 + k % 2 for k in stages]):
            timeline, ends = ge.simulate(schedule, costs, alone), simulate_ends(schedule, costs, alone)
            assert ends.last == pytest.approx([timeline.row(device)[-1].end for device in range(K)], rel=1e-12)
            assert ends.busy == pytest.approx([timeline.busy(device) for device in range(K)])


def test_an_op_in_no_pair_takes_longer_by_what_nothing_hides():
    schedule = ge.Schedule(ge.Schedule.parse("F0 F1 B0 B1"), pairs=[(ge.Op("F", 1, 0), ge.Op("B", 0, 0))])
    timeline = ge.simulate(schedule, ge.Costs(F=1, B=2), alone=[0.5])
    assert [(span.start, span.end) for span in timeline.spans] == [(0, 1.5), (1.5, 2.5), (2.5, 4.5), (4.5, 7)]
    split = ge.Schedule.parse("F0 I0 W0")
    assert ge.simulate(split, ge.Costs(F=1, I=1, W=1), alone=[0.5]).makespan == 4, "a weight gradient sends nothing"


def paired_times(schedule, costs):
    """When blocks and ops start and leave, by trying again until nothing changes any more: no order is given."""
    block = {op: pair for pair in schedule.pairs for op in pair}
    rows = [list(dict.fromkeys(block.get(op, (op,)) for op in row)) for row in schedule.rows]
    home, needs = schedule.device_of_stage, schedule.apart().needs
    lasts = {}
    for unit in {unit for row in rows for unit in row}:
        each = [getattr(costs, op.kind) for op in unit]
        lasts[unit] = sum(each) - costs.overlap * min(each) * (len(each) > 1)
    there, leaves = {}, {}
    while len(leaves) < sum(map(len, schedule.rows)):
        before = len(leaves)
        for device, row in enumerate(rows):
            free = 0.0
            for unit in row:
                wanted = [need for op in unit for need in needs(op) if need not in unit]
                if any(need not in leaves for need in wanted):
                    break
                ready = [there[need, device] if home[need.stage] != device else leaves[need] for need in wanted]
                free = max([free, *ready]) + lasts[unit]
                leaves |= dict.fromkeys(unit, free)
            # A link carries messages in the order of the ops.
            busy = {}
            for op in (op for unit in row for op in unit if op in leaves):
                for target in {d for d, other in enumerate(schedule.rows) for o in other if op in needs(o)} - {device}:
                    busy[target] = max(busy.get(target, 0), leaves[op]) + costs.link
                    there[op, target] = busy[target] + costs.send
        assert len(leaves) > before
    return leaves


def test_a_pair_starts_when_both_could_and_leaves_when_both_have_ended():
    times = ((2, 4, 2, 2, 0, 0, 0), (3, 3, 2, 1, 1, 0, 0), (1, 6, 4, 2, 0.5, 1, 0), (2, 5, 3, 2, 1, 1, 2))
    schedules = [ge.dual_pipe_v(K, M) for K, M in ((1, 3), (2, 4), (2, 7), (3, 6))]
    schedules += [ge.combined_one_f_one_b(3, 6, 1), ge.combined_one_f_one_b(2, 6, 2)]
    tight = Schedule.parse("F0 F1 B0 B1\nF0 B0 F1 B1\nF0 B0 F1 B1")  # nothing but F1 is waited for behind the block
    schedules += [Schedule(tight, pairs=[(Op("F", 1, 0), Op("B", 0, 0))])]
    for schedule, values in product(schedules, times):
        costs = Costs(**dict(zip(("F", "B", "I", "W", "overlap", "send", "link"), values, strict=True)))
        timeline, expected = ge.simulate(schedule, costs), paired_times(schedule, costs)
        assert {span.op: timeline.whole(span).end for span in timeline.spans} == expected
        span_of = {span.op: span for span in timeline.spans}
        assert all(span_of[one].end == span_of[two].start for one, two in schedule.pairs)


def test_the_critical_path_goes_through_whole_blocks():
    alone = Schedule.parse("F0 F1 B0 B1\nF0 B0 F1 B1\nF0 B0 F1 B1")
    late = Schedule(alone, pairs=[(Op("F", 1, 0), Op("B", 0, 0))])
    for schedule in (ge.dual_pipe_v(4, 8), ge.combined_one_f_one_b(3, 6, 2), late):
        path = ge.simulate(schedule, Costs(F=1, B=2, overlap=0.5)).critical_path()
        assert all(before.end == after.start for before, after in pairwise(path)), schedule
        assert path[0].start == 0


def test_durations_that_were_measured_one_by_one_know_no_pairs():
    schedule = ge.dual_pipe_v(3, 6)
    assert replay(schedule, lambda op: 1.0) == replay(schedule.apart(), lambda op: 1.0)
