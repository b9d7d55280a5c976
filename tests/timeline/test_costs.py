"""Costs on paper: defaults stage by stage, and a sentence for what is no cost."""

import decimal
from fractions import Fraction

import numpy as np
import pytest

import gpipe_edu as ge
from gpipe_edu import Costs, Op, formulas
from gpipe_edu.schedule import KINDS
from gpipe_edu.sizing import transformer
from tests.each import each
from tests.refusals import refusals


def test_without_arguments_a_backward_takes_twice_as_long_as_a_forward_and_sending_nothing():
    costs = Costs()
    assert (costs.F, costs.B, costs.send) == (1, 2, 0)
    assert {kind: values[0] for kind, values in costs.table(1).items()} == {
        "F": 1, "B": 2, "R": 1, "C": 3, "I": 1, "W": 1
    }  # fmt: skip


def test_defaults_follow_from_what_is_given_stage_by_stage():
    table = Costs(F=[1, 4], B=[3, 10]).table(2)
    assert table == {"F": (1, 4), "B": (3, 10), "R": (1, 4), "C": (4, 14), "I": (1.5, 5), "W": (1.5, 5)}


def test_c_defaults_to_the_given_recompute_and_backward():
    assert Costs(F=1, B=2, R=5).table(1)["C"] == (7,)
    assert Costs(F=1, B=2, R=5, C=6).table(1)["C"] == (6,)


def test_a_given_zero_is_a_cost_and_not_a_default():
    table = Costs(F=1, B=2, R=0, I=0, W=2).table(1)
    assert (table["R"], table["C"], table["I"], table["W"]) == ((0,), (2,), (0,), (2,))


def test_one_number_holds_for_all_stages_beside_one_per_stage():
    table = Costs(F=3, B=[1, 2, 3]).table(3)
    assert table["F"] == (3, 3, 3)
    assert table["B"] == (1, 2, 3)


@each("values", [[1, 2], (1, 2), np.array([1, 2]), range(1, 3)])
def test_a_cost_per_stage_may_be_any_sequence_and_later_changes_do_not_reach_it(values):
    costs = Costs(F=values)
    if isinstance(values, list):
        values.append(3)
    assert costs.table(2)["F"] == (1, 2)


@each("number", [2, 2.0, Fraction(2), np.int64(2), np.float32(2)])
def test_every_real_number_is_a_cost(number):
    assert Costs(F=number).table(1)["F"] == (2,)
    assert Costs(send=number).send == 2


def test_equal_costs_are_equal_and_costs_cannot_be_changed():
    assert Costs(F=[1, 2]) == Costs(F=(1, 2))
    assert hash(Costs(F=[1, 2])) == hash(Costs(F=(1, 2)))
    with pytest.raises(AttributeError):
        Costs().F = 3


def test_the_cost_of_one_op_is_looked_up_by_kind_and_stage():
    schedule = ge.gpipe(3, 1, "late")
    assert Costs(F=[1, 2, 3], B=[1, 1, 5]).of(Op("C", 0, 2), schedule) == 8
    assert Costs(F=[1, 2, 3]).of(Op("F", 0, 1), schedule) == 2


def given(name):
    """Costs as a function of one of them."""
    return lambda value: Costs(**{name: value})


def simulated_with(B):
    return ge.simulate(ge.gpipe(3, 2), Costs(B=B))


ENDLESS = [-1, -0.5, np.inf, np.nan, np.float64(-2)]


test_what_is_no_cost = refusals(
    *(
        (TypeError, f"Costs {n}", given(n), ["1", "", True, 1j, object(), decimal.Decimal(1)])
        for n in (*KINDS, "send", "link", "overlap")
    ),
    *(
        (TypeError, f"Costs {n} is 'x'; it must be a number, or a list of one per stage$", given(n), ["x"])
        for n in KINDS
    ),
    *((TypeError, f"Costs {n} is None", given(n), [None]) for n in ("F", "B", "send", "link")),
    *((TypeError, f"Costs {n}", given(n), [["1"], [1, None], [[1]], (1, True)]) for n in KINDS),
    *((ValueError, f"Costs {n} .*{{}}", given(n), ENDLESS) for n in (*KINDS, "send", "link", "overlap")),
    (ValueError, "Costs overlap is {}; it must be a share, from 0 to 1", given("overlap"), [1.5, 50]),
    (ValueError, r"Costs B.1. is -1", lambda: Costs(B=[1, -1])),
    (TypeError, "Costs send", lambda: Costs(send=[1, 2])),  # one time holds for all boundaries
    (TypeError, "Costs F", given("F"), [{0: 5, 1: 7}, {5, 7}]),  # their order would be a guess
    (ValueError, "Costs B has [014] values, but there are 3 stages", simulated_with, [[], [1], [1, 2, 3, 4]]),
)


LLAMA_3 = {"8B": (4096, 14336, 8), "70B": (8192, 28672, 8), "405B": (16384, 53248, 8)}
"""Width, hidden numbers, and heads of 128 numbers that have keys."""


def test_a_transformers_costs_are_those_of_its_block():
    """Against the layer that the planner counts, and the share of idle time that zero bubble leaves."""
    left = {
        ("8B", 8192, False): 49,
        ("8B", 131072, False): 89,
        ("8B", 8192, True): 42,
        ("8B", 131072, True): 81,
        ("70B", 8192, False): 42,
        ("70B", 131072, False): 81,
        ("405B", 8192, False): 39,
        ("405B", 131072, False): 72,
    }
    for (name, tokens, causal), percent in left.items():
        width, hidden, keys = LLAMA_3[name]
        block = transformer(
            1, width, tokens, 1, hidden=hidden, gated=True, heads=width // 128, shared_heads=keys
        ).layers[1]
        found = Costs.of_transformer(width, tokens, matrices=block.parameters - 2 * width, causal=causal)
        assert (found.F, found.B) == (1, 2)
        assert pytest.approx(2) == found.I + found.W
        if not causal:
            assert pytest.approx(1 - block.weightless / block.work) == found.W
        assert round(100 * formulas.idle_left_by_zero_bubble(found.F, found.I, found.W)) == percent, (name, tokens)
    plain = Costs.of_transformer(64, 32, send=0.5)
    assert pytest.approx((24 * 64 + 8 * 32) / (24 * 64)) == plain.I / plain.W
    assert pytest.approx((24 * 64 + 4 * 32) / (24 * 64)) == plain.F / plain.W
    assert plain.send == 0.5
    for wrong in ({"width": 0, "tokens": 1}, {"width": 8, "tokens": -1}, {"width": 8, "tokens": 8, "matrices": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            Costs.of_transformer(**wrong)


WRONG_LISTS = {
    "a number": (
        3,
        r"^Costs micro_batches is 3; it must be a list of one number per micro-batch, or such a list for each stage$",
    ),
    "no list": ("12", r"^Costs micro_batches is '12'; it must be a list of one number per micro-batch"),
    "nothing": ([], r"^Costs micro_batches is empty; it must be a list of one number per micro-batch"),
    "a negative one": ([1, -1], r"^Costs micro_batches\[1\] is -1; it must be finite and at least 0$"),
    "one of a stage": ([[1, 1], [1, "x"]], r"^Costs micro_batches\[1\]\[1\] is 'x'; it must be a number$"),
}


@each("given", WRONG_LISTS)
def test_what_is_no_cost_per_micro_batch_is_told(given):
    value, told = WRONG_LISTS[given]
    with pytest.raises((TypeError, ValueError), match=told):
        Costs(micro_batches=value)


@each("given", [[1, 2], [[1, 2, 3]], [[1, 2, 3], [1, 2]]])
def test_costs_per_micro_batch_that_do_not_fit_the_schedule_are_told(given):
    told = {
        2: r"^Costs micro_batches has 2 numbers, but there are 3 micro-batches; give 3$",
        1: r"^Costs micro_batches has 1 list, but there are 2 stages; give a number for each",
    }
    with pytest.raises(ValueError, match=told[len(given)]):
        ge.simulate(ge.gpipe(2, 3), Costs(micro_batches=given))
