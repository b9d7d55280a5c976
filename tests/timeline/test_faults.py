"""A step with one thing wrong has that and nothing else, and is a step that can happen."""

import itertools
from statistics import median

import pytest

from gpipe_edu import gpipe, one_f_one_b
from gpipe_edu.timeline.faults import SLOWER, step_with_fault

LAYERS = [4, 4, 3, 4]


@pytest.fixture(params=[gpipe, one_f_one_b])
def schedule(request):
    return request.param(4, 8)


def lengths(timeline, k, kind="F"):
    return [span.end - span.start for span in timeline.row(k) if span.op.kind == kind]


def links(timeline):
    found = [[], [], []]
    for message in timeline.messages:
        found[min(message.source, message.target)].append(message.there - message.start)
    return found


def begun_meanwhile(timeline, k):
    return [
        span.op
        for message in timeline.messages
        if message.source == k
        for span in timeline.row(k)
        if message.start <= span.start < message.there
    ]


@pytest.mark.parametrize("fault", [{}, {"slow_rank": 1}, {"slow_link": 1}, {"waits_for_sends": 1}])
def test_nothing_runs_before_what_it_needs_is_there(schedule, fault):
    timeline = step_with_fault(schedule, LAYERS, **fault, seed=3)
    ends = {span.op: span.end for span in timeline.spans}
    there = {(message.op, message.target): message.there for message in timeline.messages}
    for span in timeline.spans:
        for need in schedule.needs(span.op):
            assert span.start >= there.get((need, span.device), ends[need])
    for k in range(4):
        row = timeline.row(k)
        assert [span.op for span in row] == list(schedule.rows[k])
        assert all(a.end <= b.start for a, b in itertools.pairwise(row))
    for link in {(message.source, message.target) for message in timeline.messages}:
        sent = sorted((one.start, one.end) for one in timeline.messages if (one.source, one.target) == link)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(sent))


def test_a_slow_rank_is_slow_for_each_of_its_layers(schedule):
    timeline = step_with_fault(schedule, LAYERS, slow_rank=2)
    per_layer = [median(lengths(timeline, k)) / LAYERS[k] for k in range(4)]
    assert per_layer[2] / median(per_layer) == pytest.approx(SLOWER, rel=0.06)
    assert max(per_layer[k] for k in (0, 1, 3)) < 1.06 * min(per_layer[k] for k in (0, 1, 3))
    assert timeline.makespan > step_with_fault(schedule, LAYERS).makespan


def test_a_slow_link_is_slow_in_both_directions(schedule):
    late = links(step_with_fault(schedule, LAYERS, slow_link=1))
    assert min(late[1]) > 6 * max(late[0] + late[2])
    assert len(late[1]) == 16


def test_a_rank_that_waits_for_its_sends_begins_nothing_meanwhile(schedule):
    assert begun_meanwhile(step_with_fault(schedule, LAYERS, waits_for_sends=1), 1) == []
    assert begun_meanwhile(step_with_fault(schedule, LAYERS), 1)


def test_every_other_rank_begins_something_meanwhile(schedule):
    """In each draw of chance: else nobody could tell which rank it is that waits."""
    for layers in [4, 4, 4, 4], LAYERS:
        for fault in [{"slow_rank": 2}, *({"waits_for_sends": k} for k in range(4))]:
            for seed in (0, 1, 13, 22, 55):
                timeline = step_with_fault(schedule, layers, **fault, seed=seed)
                never = [k for k in range(4) if not begun_meanwhile(timeline, k)]
                assert never == [fault[name] for name in fault if name == "waits_for_sends"], (layers, fault, seed)


def test_where_another_rank_waits_as_well_it_is_refused():
    with pytest.raises(ValueError, match=r"rank 0 never begins an op .*: take more micro-batches"):
        step_with_fault(gpipe(2, 1), [4, 4], waits_for_sends=1)
    step_with_fault(gpipe(2, 1), [4, 4], slow_rank=1)


def test_a_message_leaves_its_link_before_it_is_there(schedule):
    """Who waits for the first begins ops before the second."""
    timeline = step_with_fault(schedule, LAYERS, waits_for_sends=1, waits_for_link=3)
    assert all(one.start < one.end < one.there for one in timeline.messages)
    sent, row = [one for one in timeline.messages if one.source == 3], timeline.row(3)
    assert not any(one.start <= span.start < one.end for one in sent for span in row)
    assert begun_meanwhile(timeline, 3)


def test_one_op_stumbles_and_another_seed_is_another_step(schedule):
    timeline = step_with_fault(schedule, [4] * 4, seed=1)
    long = [
        k
        for k in range(4)
        for kind in "FB"
        for one in lengths(timeline, k, kind)
        if one > 2 * median(lengths(timeline, k, kind))
    ]
    assert len(long) == 1
    assert (
        step_with_fault(schedule, [4] * 4, seed=1).spans
        == timeline.spans
        != step_with_fault(schedule, [4] * 4, seed=2).spans
    )


def test_an_op_that_is_said_to_stumble_does_and_no_other(schedule):
    op = schedule.rows[3][0]
    timeline = step_with_fault(schedule, [4, 4, 4, 4], stumbles=op)
    times = {span.op: (span.end - span.start) / {"F": 4, "B": 8}[span.op.kind] for span in timeline.spans}
    assert times.pop(op) > 2.9
    assert max(times.values()) < 1.1
