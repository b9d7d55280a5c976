"""The closed forms with what a tired learner types: refused with the name and the value, numpy integers accepted."""

import inspect

import numpy as np
import pytest

from gpipe_edu import formulas

COUNTED = {
    name: function
    for name, function in inspect.getmembers(formulas, inspect.isfunction)
    if not name.startswith("_") and "K" in inspect.signature(function).parameters
}
NO_COUNTS = {"k", "fixed", "work"}
TIMED = [formulas.makespan, formulas.makespan_naive, formulas.makespan_early, formulas.bubble_fraction_early]


def arguments(function, **changes):
    """Arguments that suit `function`, with some changed."""
    needed = inspect.signature(function).parameters
    usual = {"K": 2, "M": 4, "V": 2, "L": 8, "k": 0, "fixed": 1, "work": 9} | changes
    return {name: value for name, value in usual.items() if name in needed}


def test_all_forms_that_count_are_tried_here():
    assert len(COUNTED) == 14


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("count", [0, -1])
def test_a_count_below_one_is_a_value_error_with_its_name(name, count):
    function = COUNTED[name]
    for which in set(arguments(function)) - NO_COUNTS:
        with pytest.raises(ValueError, match=f"{which} is {count}"):
            function(**arguments(function, **{which: count}))


@pytest.mark.parametrize("count", ["4", None, 4.5, True, [4]])
def test_a_count_that_is_no_whole_number_is_a_type_error_with_its_name(count):
    for function in COUNTED.values():
        for which in set(arguments(function)) - NO_COUNTS:
            with pytest.raises(TypeError) as error:
                function(**arguments(function, **{which: count}))
            assert f"{which} is {count!r}" in str(error.value)


@pytest.mark.parametrize("name", COUNTED)
def test_numpy_integers_are_counts(name):
    function, usual = COUNTED[name], arguments(COUNTED[name])
    assert function(**{key: np.int64(value) for key, value in usual.items()}) == function(**usual)


@pytest.mark.parametrize("k", [-1, 4, 100])
def test_a_device_that_does_not_exist_is_a_value_error(k):
    with pytest.raises(ValueError, match=f"k is {k}"):
        formulas.peak_in_flight(4, 8, k)


@pytest.mark.parametrize("k", ["0", None, 1.5])
def test_a_device_that_is_no_whole_number_is_a_type_error(k):
    with pytest.raises(TypeError) as error:
        formulas.peak_in_flight(4, 8, k)
    assert repr(k) in str(error.value)


@pytest.mark.parametrize("costs", [[], [0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]])
def test_a_bound_needs_positive_times(costs):
    with pytest.raises(ValueError, match="cost"):
        formulas.utilization_bound(costs)


@pytest.mark.parametrize("costs", [3, None, "abc", ["1", "2"], [None]])
def test_a_bound_of_what_are_no_costs_is_refused_with_a_word_about_costs(costs):
    with pytest.raises((TypeError, ValueError), match="cost"):
        formulas.utilization_bound(costs)


def test_a_bound_takes_an_array():
    assert formulas.utilization_bound(np.array([2, 2, 2, 5])) == 11 / 20


@pytest.mark.parametrize("time", ["1", [1], None])
def test_a_time_that_is_no_number_is_a_type_error_that_shows_it(time):
    for function in TIMED:
        with pytest.raises(TypeError) as error:
            function(2, 4, F=time)
        assert repr(time) in str(error.value)


def test_a_negative_time_is_a_value_error_that_shows_it():
    for function in TIMED:
        with pytest.raises(ValueError, match="-3"):
            function(2, 4, F=-3)


def test_no_work_at_all_is_no_division_by_zero():
    with pytest.raises(ValueError, match="F"):
        formulas.recompute_overhead(0, 0)
    with pytest.raises(ValueError, match="F"):
        formulas.bubble_fraction_early(2, 4, F=0, B=0)
