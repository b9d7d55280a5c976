"""Plain data keeps its value and its type; code and other things never come through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpipe_edu import Op, gpipe
from gpipe_edu.process import plain
from tests.amount import examples

leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@examples(200)
@given(values)
def test_what_goes_in_comes_out(value):
    assert repr(plain.decode(plain.encode(value))) == repr(value)


@pytest.mark.parametrize(
    "array", [np.arange(6).reshape(2, 3)[:, ::2], np.zeros((0, 3)), np.array(2.5), np.array([True]), np.array([1 + 2j])]
)
def test_arrays_keep_shape_type_and_values(array):
    found = plain.decode(plain.encode([array, array.dtype.type(1)]))
    assert found[0].dtype == array.dtype
    assert found[0].shape == array.shape
    assert np.array_equal(found[0], array)
    assert type(found[1]) is array.dtype.type


def test_ops_and_schedules_travel():
    schedule = gpipe(2, 2)
    assert plain.decode(plain.encode((Op("F", 1, 0), schedule))) == (Op("F", 1, 0), schedule)


def test_anything_else_is_told_by_its_type():
    class Strange:
        def __repr__(self):
            raise ValueError

    found = plain.decode(plain.encode([Strange(), len, {1, 2}, iter([]), np.array([object()])]))
    assert [item.type for item in found] == [
        "Strange",
        "builtin_function_or_method",
        "set",
        "list_iterator",
        "array of type object",
    ]
    assert not any(isinstance(item, tuple | list) for item in found)


def test_a_list_that_holds_itself_ends():
    endless = []
    endless.append(endless)
    assert "nested too deeply" in repr(plain.decode(plain.encode(endless)))


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"op": ["Q", 0, 0]}', b'{"array": [1]}', b'{"a": 1, "b": 2}', b"[" * 9999]
)
def test_bytes_that_nobody_encoded_are_refused(data):
    with pytest.raises(ValueError, match=r"."):
        plain.decode(data)


def test_a_dict_of_very_many_keys_is_not_built():
    with pytest.raises(ValueError, match="a dict of 120000 keys"):
        plain.decode(plain.encode(dict.fromkeys(range(120_000))))


def test_what_somebody_else_has_written_is_no_longer_than_what_encode_writes():
    found = plain.decode(b'{"other": ["%s", "%s"]}' % (b"x" * 10_000, b"y" * 10_000))
    assert (len(found.type), len(found.text)) == (200, 200)
