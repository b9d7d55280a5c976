"""Ops: plain data that refuses what is not an op."""

import pickle

import numpy as np
import pytest

from gpipe_edu import Op
from gpipe_edu.schedule import KINDS


@pytest.mark.parametrize("kind", "FBRCIW")
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


@pytest.mark.parametrize("integer", [np.int64(2), np.int32(2), np.uint8(2), np.array(2)])
def test_numpy_integers_become_plain_ints(integer):
    op = Op("F", integer, integer)
    assert op == Op("F", 2, 2)
    assert type(op.micro_batch) is int
    assert type(op.stage) is int


@pytest.mark.parametrize("index", [True, False, np.True_, 1.0, np.float64(1), "1", None, [1], (1,), 1j])
@pytest.mark.parametrize("name", ["micro_batch", "stage"])
def test_an_index_that_is_no_integer_is_a_type_error_with_its_name(name, index):
    arguments = {"micro_batch": 0, "stage": 0, name: index}
    with pytest.raises(TypeError) as error:
        Op("F", **arguments)
    assert name in str(error.value)
    assert repr(index) in str(error.value)


@pytest.mark.parametrize("name", ["micro_batch", "stage"])
@pytest.mark.parametrize("index", [-1, np.int64(-7)])
def test_a_negative_index_is_a_value_error_with_its_name(name, index):
    arguments = {"micro_batch": 0, "stage": 0, name: index}
    with pytest.raises(ValueError, match=f"{name} is {int(index)}"):
        Op("F", **arguments)


@pytest.mark.parametrize("kind", ["f", "X", "", "FB", None, 0, "forward", b"F"])
def test_an_unknown_kind_is_refused_and_the_known_ones_are_listed(kind):
    with pytest.raises((ValueError, TypeError)) as error:
        Op(kind, 0, 0)
    assert repr(kind) in str(error.value)
    assert all(f'"{letter}" {name}' in str(error.value) for letter, name in KINDS.items())


@pytest.mark.parametrize("kind", [["F"], {"F": 1}, {"F"}])
def test_a_kind_that_cannot_be_hashed_gets_the_same_sentence(kind):
    with pytest.raises((ValueError, TypeError)) as error:
        Op(kind, 0, 0)
    assert repr(kind) in str(error.value)
