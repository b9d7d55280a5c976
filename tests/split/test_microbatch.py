"""Cutting a batch and joining it again: nothing lost, nothing moved, sizes as even as they can be."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

import gpipe_edu as ge
from tests.amount import examples
from tests.each import each
from tests.refusals import refusals

SIZES = st.tuples(st.integers(0, 30), st.integers(1, 12))
SHAPES = st.lists(st.integers(0, 3), max_size=2)
TYPES = st.sampled_from([np.float64, np.int32, np.bool_])


def array(N, shape=(), dtype=np.float64):
    return np.arange(N * int(np.prod(shape, initial=1))).reshape(N, *shape).astype(dtype)


def even(sizes):
    return max(sizes) - min(sizes) <= 1 and sorted(sizes, reverse=True) == sizes


@examples(150)
@given(SIZES, SHAPES, TYPES)
def test_an_array_survives_the_cut_in_exactly_m_even_pieces(sizes, shape, dtype):
    N, M = sizes
    batch = array(N, tuple(shape), dtype)
    pieces = ge.split_batch(batch, M)
    assert len(pieces) == M
    assert even([len(piece) for piece in pieces])
    assert all(piece.dtype == dtype and piece.shape[1:] == batch.shape[1:] for piece in pieces)
    joined = ge.join_batch(pieces)
    assert joined.dtype == dtype
    np.testing.assert_array_equal(joined, batch)


@given(SIZES, SHAPES)
def test_a_tensor_survives_the_cut_too(sizes, shape):
    N, M = sizes
    batch = torch.from_numpy(array(N, tuple(shape)))
    pieces = ge.split_batch(batch, M)
    assert [len(piece) for piece in pieces] == [len(piece) for piece in ge.split_batch(array(N), M)]
    joined = ge.join_batch(pieces)
    assert joined.dtype == batch.dtype
    assert torch.equal(joined, batch)


@given(SIZES, st.integers(1, 4))
def test_a_tuple_is_cut_into_tuples_whose_parts_belong_together(sizes, parts):
    N, M = sizes
    batch = tuple(array(N, (part,)) if part % 2 else torch.from_numpy(array(N)) + part for part in range(1, parts + 1))
    pieces = ge.split_batch(batch, M)
    assert len(pieces) == M
    for m, piece in enumerate(pieces):
        assert type(piece) is tuple
        for part, whole in zip(piece, batch, strict=True):
            np.testing.assert_array_equal(part, ge.split_batch(whole, M)[m])
    for joined, whole in zip(ge.join_batch(pieces), batch, strict=True):
        assert type(joined) is type(whole)
        np.testing.assert_array_equal(joined, whole)


@each(
    "N, M, sizes",
    [(8, 4, [2, 2, 2, 2]), (5, 4, [2, 1, 1, 1]), (7, 3, [3, 2, 2]), (2, 4, [1, 1, 0, 0]), (0, 2, [0, 0]), (3, 1, [3])],
)
def test_the_first_pieces_get_the_samples_that_are_left_over(N, M, sizes):
    assert [len(piece) for piece in ge.split_batch(array(N), M)] == sizes


def test_pieces_are_views_so_no_sample_is_copied():
    batch = array(6, (2,))
    assert all(np.shares_memory(piece, batch) for piece in ge.split_batch(batch, 4))
    tensor = torch.zeros(6)
    assert ge.split_batch(tensor, 3)[0].data_ptr() == tensor.data_ptr()


def test_gradients_flow_back_through_cut_and_join():
    batch = torch.arange(5.0, requires_grad=True)
    (ge.join_batch(ge.split_batch(batch, 3)) * torch.arange(5.0)).sum().backward()
    assert torch.equal(batch.grad, torch.arange(5.0))


@each("M", [np.int64(3), np.int32(3)])
def test_numpy_integers_count_micro_batches(M):
    assert len(ge.split_batch(array(7), M)) == 3


SCALARS = [np.float64(3), np.array(3.0), torch.tensor(3.0)]
NO_ARRAY = "array or tensor with samples along its first axis.*got"

test_what_cannot_be_cut = refusals(
    (TypeError, "M is {}", lambda M: ge.split_batch(array(4), M), ["2", None, 2.0, True, [2], np.float64(2)]),
    (ValueError, "M is {}; it must be at least 1", lambda M: ge.split_batch(array(4), M), [0, -1]),
    (ValueError, r"M is 1(,000){10}; it must be at most 1,000,000", lambda: ge.split_batch(array(4), 10**30)),
    (TypeError, f"{NO_ARRAY} list$", lambda batch: ge.split_batch(batch, 2), [[1, 2], (array(2), [1, 2])]),
    (TypeError, f"{NO_ARRAY} str$", lambda: ge.split_batch("abc", 2)),
    (TypeError, f"{NO_ARRAY} NoneType$", lambda: ge.split_batch(None, 2)),
    (TypeError, f"{NO_ARRAY} int$", lambda: ge.split_batch(3, 2)),
    (TypeError, f"{NO_ARRAY} dict$", lambda: ge.split_batch({"x": 1}, 2)),
    (TypeError, "without axes", lambda scalar: ge.split_batch(scalar, 2), SCALARS),
    (ValueError, r"\[4, 5\] samples", lambda: ge.split_batch((array(4), array(5)), 2)),
    (ValueError, "empty tuple", lambda: ge.split_batch((), 2)),
)

test_what_cannot_be_joined = refusals(
    (TypeError, "without axes", lambda scalar: ge.join_batch([scalar]), SCALARS),
    (ValueError, "no pieces", ge.join_batch, [[], (), iter([])]),
    ((ValueError, TypeError), "tuple", ge.join_batch, [[(array(2),), (array(2), array(2))], [(array(2),), array(2)]]),
    (ValueError, "pieces are not tuples of one length", lambda: ge.join_batch([array(2), (array(2),)])),
    (TypeError, "piece", ge.join_batch, [5, None]),
    (TypeError, "piece", lambda: ge.join_batch(array(3, (2,)))),  # a whole batch is not flattened
)


def test_pieces_may_come_one_by_one():
    np.testing.assert_array_equal(ge.join_batch(piece for piece in ge.split_batch(array(5), 3)), array(5))
