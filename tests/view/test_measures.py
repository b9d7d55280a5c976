"""Figures in words, checked by counting slots."""

import pytest

import gpipe_edu as ge
from gpipe_edu.view.measures import fullest, ticks, time_unit, useful_fraction
from tests.each import each


@pytest.mark.parametrize(
    ("unit", "time", "words"),
    [
        ("", 33, "33"),
        ("", 79.75, "79.75"),
        ("", 0.1 + 0.2, "0.3"),
        ("s", 2.5, "2.5 s"),
        ("s", 0.0361, "36.1 ms"),
        ("s", 0.00001234, "12.3 µs"),
        ("s", 1234.5, "1234 s"),
    ],
)
def test_times_in_words(unit, time, words):
    assert time_unit(unit, time).show(time) == words


@pytest.mark.parametrize("recompute", ["late", "early"])
def test_recompute_is_busy_but_not_useful(recompute):
    timeline = ge.simulate(ge.gpipe(4, 4, recompute=recompute), ge.Costs(F=1, B=2))
    assert useful_fraction(timeline) == pytest.approx(4 * 4 * 3 / (4 * timeline.makespan))
    assert 1 - timeline.bubble_fraction - useful_fraction(timeline) == pytest.approx(16 / (4 * timeline.makespan))


@pytest.mark.parametrize("schedule", [ge.gpipe(4, 8), ge.one_f_one_b(4, 8), ge.zero_bubble(4, 8)])
def test_without_recompute_all_busy_time_is_useful(schedule):
    timeline = ge.simulate(schedule)
    assert useful_fraction(timeline) == pytest.approx(1 - timeline.bubble_fraction)


@each("longest", [0.003, 0.7, 1, 9.99, 33, 100, 237, 12345])
@each("most", [2, 5, 13])
def test_ticks_are_round_few_and_reach_the_end(longest, most):
    marks = ticks(longest, most)
    step = marks[1]
    assert len(marks) <= most + 1
    assert marks[0] == 0
    assert longest - step < marks[-1] <= longest * (1 + 1e-9)
    assert f"{step:e}"[0] in "125"


def test_one_micro_batch_is_one_however_it_was_added_up():
    timeline = ge.simulate(ge.gpipe(2, 2))
    said = [fullest(timeline, peak) for peak in (1, 1 - 1e-15, 2, 1.5)]
    assert said == ["1 micro-batch", "1 micro-batch", "2 micro-batches", "1.5 micro-batches"]
