"""Ops: plain data that refuses what is not an op."""

import pickle

import numpy as np
import pytest

from gpipe_edu import Op
from gpipe_edu.schedule import KINDS
from tests.each import each
from tests.refusals import refusals


@each("kind", "FBRCIW")
def test_every_kind_of_the_contract_is_an_op(kind):
    op = Op(kind, 3, 1)
    assert (op.kind, op.micro_batch, op.stage) == (kind, 3, 1)
    assert kind in KINDS


def test_there_are_no_other_kinds():
    assert set(KINDS) == set("FBRCIW")


def test_an_op_prints_with_its_stage_and_is_labelled_without_it():
    assert str(Op("F", 3, 2)) == "F3@2"
    assert Op("F", 3, 2).label == "F3"


def test_equal_ops_are_one_key_and_other_ops_are_others():
    ops = {Op(kind, m, k) for kind in "FB" for m in range(3) for k in range(2)}
    assert len(ops | {Op("F", 0, 0)}) == 12
    assert Op("F", 1, 0) != Op("F", 0, 1)


def test_an_op_can_be_written_to_a_file_and_read_back():
    again = pickle.loads(pickle.dumps(Op("C", 5, 2)))
    assert again == Op("C", 5, 2)
    assert type(again) is Op


def test_an_op_cannot_be_changed():
    with pytest.raises(AttributeError):
        Op("F", 0, 0).stage = 1
    with pytest.raises(AttributeError):
        Op("F", 0, 0).colour = "red"


@each("integer", [np.int64(2), np.int32(2), np.uint8(2), np.array(2)])
def test_numpy_integers_become_plain_ints(integer):
    op = Op("F", integer, integer)
    assert op == Op("F", 2, 2)
    assert type(op.micro_batch) is int
    assert type(op.stage) is int


NO_INDEX = [True, False, np.True_, 1.0, np.float64(1), "1", None, [1], (1,), 1j]
NO_KIND = ["f", "X", "", "FB", None, 0, "forward", b"F", ["F"], {"F": 1}, {"F"}]
KNOWN = ".*".join(f'"{letter}" {name}' for letter, name in KINDS.items())

test_what_is_no_op = refusals(
    (TypeError, "micro_batch.*{}", lambda index: Op("F", index, 0), NO_INDEX),
    (TypeError, "stage.*{}", lambda index: Op("F", 0, index), NO_INDEX),
    (ValueError, "micro_batch is -[17]", lambda index: Op("F", index, 0), [-1, np.int64(-7)]),
    (ValueError, "stage is -[17]", lambda index: Op("F", 0, index), [-1, np.int64(-7)]),
    ((ValueError, TypeError), f"{KNOWN}.*{{}}|{{}}.*{KNOWN}", lambda kind: Op(kind, 0, 0), NO_KIND),
)
