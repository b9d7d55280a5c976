"""Timelines and the figures that follow from their spans, planned or measured."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu import Costs, Op, Span, Timeline
from tests.amount import examples
from tests.each import each
from tests.oracle import held, inputs, plain
from tests.recipes import recompute_and_split, small_schedules
from tests.strategies import RANDOM, priced

SCHEDULES = [*small_schedules(3, 4), recompute_and_split(3, 3), ge.one_f_one_b(5, 9), ge.interleaved(4, 8, 3)]


def measured_like(schedule, rng):
    """A timeline as an engine would measure it: every op starts late by some random time, from an odd zero."""
    free, ended, spans = [1000] * schedule.devices, {}, []
    for device, op, needs in schedule.steps:
        start = max([free[device], *(ended[need] for need in needs)]) + rng.randrange(4)
        free[device] = ended[op] = start + rng.randrange(1, 6)
        spans.append(Span(device, op, start, ended[op]))
    rng.shuffle(spans)
    return Timeline(spans, schedule.devices, source="measured", unit="s")


def test_idle_busy_and_bubble_of_a_timeline_drawn_by_hand():
    spans = [Span(0, Op("F", 0, 0), 10, 12), Span(1, Op("F", 0, 1), 13, 14), Span(0, Op("B", 0, 0), 16, 20)]
    timeline = Timeline(spans[::-1], 2)
    assert timeline.spans == tuple(spans)
    assert (timeline.start, timeline.end, timeline.makespan) == (10, 20, 10)
    assert [timeline.busy(0), timeline.busy(1)] == [6, 1]
    assert [timeline.idle(0), timeline.idle(1)] == [4, 9]
    assert timeline.bubble_fraction == 13 / 20
    assert timeline.row(0) == [spans[0], spans[2]]


@given(priced(SCHEDULES), RANDOM)
def test_idle_is_what_is_left_of_the_makespan_on_every_device(case, rng):
    schedule, costs, _, _ = case
    for timeline in (ge.simulate(schedule, costs), measured_like(schedule, rng)):
        busy = [0] * schedule.devices
        for span in timeline.spans:
            busy[span.device] += span.end - span.start
        first, last = min(s.start for s in timeline.spans), max(s.end for s in timeline.spans)
        assert timeline.makespan == last - first
        assert [timeline.idle(device) for device in range(schedule.devices)] == [last - first - b for b in busy]
        if last > first:
            share = 1 - sum(busy) / (schedule.devices * (last - first))
            assert timeline.bubble_fraction == pytest.approx(share, abs=1e-12)


def test_the_makespan_starts_with_the_first_op_not_with_zero():
    spans = ge.simulate(ge.gpipe(2, 2)).spans
    later = Timeline([span._replace(start=span.start + 500, end=span.end + 500) for span in spans], 2)
    assert later.makespan == 9
    assert later.bubble_fraction == ge.simulate(ge.gpipe(2, 2)).bubble_fraction


def in_flight(timeline, device, time):
    """Micro-batches that `device` holds just after `time`, a micro-batch counted once per stage."""
    return held(timeline, device, time, [1] * 20, [0] * 20)


@given(st.sampled_from(SCHEDULES), st.integers(1, 3), RANDOM)
def test_micro_batches_in_flight_are_those_begun_and_not_finished(schedule, F, rng):
    for timeline in (ge.simulate(schedule, Costs(F=F, B=2)), measured_like(schedule, rng)):
        for device, level in enumerate(timeline.in_flight):
            counts = dict(level)  # the last entry of a time is what is held from then on
            for time, count in counts.items():
                assert count == in_flight(timeline, device, time)
            assert list(counts) == sorted(counts)
            assert level[-1][1] == 0
            assert timeline.peak_in_flight[device] == max(in_flight(timeline, device, time) for time in counts)


@each("costs", [Costs(F=0, B=0), Costs(F=0), Costs(B=0), Costs(F=[1, 0], B=[1, 0])])
@each("schedule", [ge.gpipe(2, 2), ge.naive(2, 2), ge.zero_bubble(2, 3)])
def test_no_device_ever_holds_fewer_than_no_micro_batches(schedule, costs):
    timeline = ge.simulate(schedule, costs)
    for level in timeline.in_flight:
        assert min(count for _, count in level) >= 0
        assert level[-1][1] == 0


def test_an_op_that_takes_no_time_still_holds_its_micro_batch():
    assert ge.simulate(ge.gpipe(2, 3), Costs(F=0, B=0)).peak_in_flight == (3, 3)


def links(path):
    return list(itertools.pairwise(path))


@examples(200)
@given(priced(SCHEDULES))
def test_the_critical_path_of_a_planned_timeline_is_a_chain_without_gaps(case):
    schedule, costs, _, send = case
    timeline = ge.simulate(schedule, costs)
    path = timeline.critical_path()
    there = {op for row in plain(schedule) for op in row}
    sent = 0
    for before, after in links(path):
        elsewhere = before.device != after.device
        sent += send if elsewhere else 0
        assert after.start == before.end + (send if elsewhere else 0)
        row = schedule.rows[after.device]
        in_front = not elsewhere and row.index(before.op) == row.index(after.op) - 1
        assert in_front or tuple(before.op) in inputs(tuple(after.op), there, schedule.stages)
    assert sum(span.end - span.start for span in path) + sent == timeline.makespan
    assert path[0].start == 0
    assert path[-1].end == timeline.makespan
    assert set(path) <= set(timeline.spans)


@examples(200)
@given(st.sampled_from(SCHEDULES), RANDOM)
def test_the_critical_path_of_a_measured_timeline_follows_what_was_waited_for_longest(schedule, rng):
    timeline = measured_like(schedule, rng)
    path = timeline.critical_path()
    span_of = {tuple(span.op): span for span in timeline.spans}
    rows = plain(schedule)

    def causes(span):
        row = rows[span.device]
        place = row.index(tuple(span.op))
        return [span_of[op] for op in inputs(tuple(span.op), span_of, schedule.stages) + row[:place][-1:]]

    for before, after in links(path):
        assert before in causes(after)
        assert before.end == max(cause.end for cause in causes(after)) <= after.start
    assert causes(path[0]) == []
    assert path[-1].end == timeline.end
    waited = sum(after.start - before.end for before, after in links(path)) + path[0].start - timeline.start
    assert sum(span.end - span.start for span in path) + waited == timeline.makespan


def test_the_critical_path_of_the_naive_schedule_is_every_op():
    assert ge.simulate(ge.naive(3, 4)).critical_path() == list(ge.simulate(ge.naive(3, 4)).spans)


def test_the_slowest_stage_is_on_the_critical_path_with_all_its_ops():
    path = ge.simulate(ge.gpipe(4, 8), Costs(F=[1, 1, 9, 1], B=[1, 1, 9, 1])).critical_path()
    assert sum(span.op.stage == 2 for span in path) == 16


def test_only_what_was_measured_says_so():
    spans = [Span(0, Op("F", 0, 0), 0, 1)]
    assert [Timeline(spans, 1, source=source).measured for source in ("planned", "replayed", "measured")] == [
        False, False, True
    ]  # fmt: skip


def test_timelines_with_the_same_spans_are_equal():
    one, two = ge.simulate(ge.gpipe(2, 2)), ge.simulate(ge.gpipe(2, 2))
    assert one == two
    assert len({one, two}) == 1
    assert one != ge.simulate(ge.gpipe(2, 2), Costs(F=2))
    assert one != one.spans


def test_a_row_is_the_callers_own():
    timeline = ge.simulate(ge.gpipe(2, 2))
    timeline.row(0).clear()
    assert len(timeline.row(0)) == 4


def test_repr_names_source_devices_and_makespan():
    assert repr(ge.simulate(ge.gpipe(4, 8))) == "Timeline(gpipe, planned, devices=4, makespan=33)"
