"""The closed forms with what a tired learner types: refused with the name and the value, numpy integers accepted."""

import inspect

import numpy as np

from gpipe_edu import formulas
from tests.each import each
from tests.refusals import refusals

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
    assert len(COUNTED) == 15


def with_count(name, which):
    """The form `name` as a function of one of its counts."""
    return lambda count: COUNTED[name](**arguments(COUNTED[name], **{which: count}))


COUNTS = [(name, which) for name, form in COUNTED.items() for which in arguments(form) if which not in NO_COUNTS]

test_a_count_is_refused_with_its_name = refusals(
    *((ValueError, f"{which} is {{}}", with_count(name, which), [0, -1]) for name, which in COUNTS),
    *((TypeError, f"{which} is {{}}", with_count(name, which), ["4", None, 4.5, True, [4]]) for name, which in COUNTS),
)

test_other_arguments_are_refused = refusals(
    (ValueError, "k is {}", lambda k: formulas.peak_in_flight(4, 8, k), [-1, 4, 100]),
    (TypeError, "{}", lambda k: formulas.peak_in_flight(4, 8, k), ["0", None, 1.5]),
    (ValueError, "cost", formulas.utilization_bound, [[], [0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1]]),
    ((TypeError, ValueError), "cost", formulas.utilization_bound, [3, None, "abc", ["1", "2"], [None]]),
    *((TypeError, "{}", lambda time, form=form: form(2, 4, F=time), ["1", [1], None]) for form in TIMED),
    *((ValueError, "{}", lambda time, form=form: form(2, 4, F=time), [-3]) for form in TIMED),
    (ValueError, "F", lambda: formulas.recompute_overhead(0, 0)),
    (ValueError, "F", lambda: formulas.bubble_fraction_early(2, 4, F=0, B=0)),
)


@each("name", COUNTED)
def test_numpy_integers_are_counts(name):
    function, usual = COUNTED[name], arguments(COUNTED[name])
    assert function(**{key: np.int64(value) for key, value in usual.items()}) == function(**usual)


def test_a_bound_takes_an_array():
    assert formulas.utilization_bound(np.array([2, 2, 2, 5])) == 11 / 20
