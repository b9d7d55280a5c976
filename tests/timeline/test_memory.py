"""Memory over time against a replay that asks, at every moment, what each micro-batch has left on its device."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from gpipe_edu import Costs
from gpipe_edu.timeline.memory import memory_over_time, peak_memory
from tests.amount import examples
from tests.oracle import cells, held
from tests.recipes import recompute_and_split, small_schedules
from tests.refusals import refusals
from tests.strategies import priced, times

SCHEDULES = [*small_schedules(3, 4), *(recompute_and_split(K, M) for K in (1, 3) for M in (1, 3))]


@examples(200)
@given(priced(SCHEDULES), st.data())
def test_every_level_is_the_replayed_one(case, data):
    schedule, costs, _, _ = case
    timeline = ge.simulate(schedule, costs)
    boundary, interior = data.draw(times(schedule.stages)), data.draw(times(schedule.stages))
    sizes = data.draw(st.none() | times(schedule.micro_batches))
    for device, level in enumerate(memory_over_time(timeline, boundary, interior, sizes)):
        moments = [time for time, _ in level]
        assert moments == sorted(set(moments))
        changes = {edge for *_, when in cells(timeline, device) for span in when.values() for edge in span}
        for time in changes.union(moments):
            known = [amount for moment, amount in level if moment <= time]
            assert (known[-1] if known else 0) == held(timeline, device, time, boundary, interior, sizes)
        assert level[-1][1] == 0


@given(st.sampled_from(SCHEDULES), st.integers(1, 4), st.integers(2, 5))
def test_the_peak_is_the_highest_replayed_level_when_every_op_takes_time(schedule, F, B):
    timeline = ge.simulate(schedule, Costs(F=[F + k % 2 for k in range(schedule.stages)], B=B))
    starts = [span.start for span in timeline.spans]
    for device, peak in enumerate(peak_memory(timeline, 2, 3)):
        sizes = ([2] * schedule.stages, [3] * schedule.stages)
        assert peak == max(held(timeline, device, time, *sizes) for time in starts)


def test_with_defaults_and_without_recompute_the_peak_counts_micro_batches_in_flight():
    for schedule in SCHEDULES:
        if not any(op.kind in "RC" for row in schedule.rows for op in row):
            timeline = ge.simulate(schedule)
            assert peak_memory(timeline) == timeline.peak_in_flight


@pytest.mark.parametrize("way", ["late", "early"])
def test_rematerialization_keeps_all_boundaries_and_one_interior(way):
    assert peak_memory(ge.simulate(ge.gpipe(4, 8, way)), boundary=1, interior=10) == (18,) * 4
    assert peak_memory(ge.simulate(ge.gpipe(4, 8)), boundary=1, interior=10) == (88,) * 4


def test_a_micro_batch_of_twice_the_size_by_hand():
    timeline = ge.simulate(ge.gpipe(2, 3, "late"), Costs(micro_batches=[1, 2, 1]))
    # The most is there while the large one is recomputed: the inputs of 0 and 1, and what is inside 1.
    assert peak_memory(timeline, 1, 10, [1, 2, 1]) == (1 + 2 + 20,) * 2
    with pytest.raises(ValueError, match=r"^micro_batches has 2 numbers; it must have one for each of the 3$"):
        peak_memory(timeline, 1, 10, [1, 2])


def test_a_level_by_hand():
    levels = memory_over_time(ge.simulate(ge.gpipe(1, 2, "late")), boundary=1, interior=10)
    assert levels == [[(0, 11), (1, 12), (2, 12), (5, 11), (8, 0)]]


def with_size(name):
    """The memory of a plan as a function of one of its two sizes."""
    return lambda size: memory_over_time(ge.simulate(ge.gpipe(2, 2)), **{name: size})


NAMES = ["boundary", "interior"]

test_what_is_no_size = refusals(
    *((ValueError, f"{n} has [013] values, but there are 2 stages", with_size(n), [[], [1], [1, 2, 3]]) for n in NAMES),
    *(((TypeError, ValueError), name, with_size(name), ["1", "ab", None, ["1", "2"]]) for name in NAMES),
    *((ValueError, name, with_size(name), [-1, [1, -1]]) for name in NAMES),
    (TypeError, "(?i)timeline", lambda: memory_over_time(ge.gpipe(2, 2))),
)


def test_an_array_is_one_size_per_stage():
    timeline = ge.simulate(ge.gpipe(2, 2))
    expected = memory_over_time(timeline, boundary=[3, 4], interior=[1, 2])
    assert memory_over_time(timeline, boundary=np.array([3, 4]), interior=np.array([1, 2])) == expected
