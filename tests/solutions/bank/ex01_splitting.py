"""Exercise 01. Where a slip concerns the sizes, tuples and M < 1 are handled well, so that only the slip is left."""

import itertools
import math
import random

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex01/splitting")


def complete(cut):
    """What a careful learner puts around a cut of one array."""

    def split(batch, M):
        if M < 1:
            raise ValueError("M must be at least 1")
        if isinstance(batch, tuple):
            return list(zip(*[cut(part, M) for part in batch], strict=True))
        return cut(batch, M)

    return split


def wrong_cut(slip):
    def add(cut):
        function = complete(cut)
        function.__name__ = cut.__name__
        return BANK.wrong(slip)(function)

    return add


@wrong_cut("remainder-lost")
def floor_size(x, M):
    size = len(x) // M
    return [x[m * size : (m + 1) * size] for m in range(M)]


@wrong_cut("remainder-last")
def rest_to_the_last(x, M):
    size = len(x) // M
    return [x[m * size : (m + 1) * size] for m in range(M - 1)] + [x[(M - 1) * size :]]


@wrong_cut("too-few")
def like_torch_chunk(x, M):
    size = math.ceil(len(x) / M)
    return [x[start : start + size] for start in range(0, len(x), size)]


@wrong_cut("ceiling")
def ceiling_and_empty_ones(x, M):
    size = math.ceil(len(x) / M)
    return [x[m * size : (m + 1) * size] for m in range(M)]


@wrong_cut("one-more")
def rest_as_a_piece(x, M):
    size = max(1, len(x) // M)
    pieces = [x[m * size : (m + 1) * size] for m in range(M)]
    return [*pieces, x[M * size :]] if len(x) > M * size else pieces


@wrong_cut("size-M")
def pieces_of_size_M(x, M):
    return [x[start : start + M] for start in range(0, len(x), M)]


@wrong_cut("dealt")
def strided(x, M):
    return [x[m::M] for m in range(M)]


@wrong_cut("order")
def shuffled_first(x, M):
    order = np.random.default_rng(0).permutation(len(x))
    return np.array_split(x[order], M)


@wrong_cut("invented")
def random_of_the_right_shape(x, M):
    return [np.random.rand(*piece.shape).astype(x.dtype) for piece in np.array_split(x, M)]


@wrong_cut("doubled")
def padded_to_equal_sizes(x, M):
    size = math.ceil(len(x) / M)
    padded = np.concatenate([x, np.zeros((size * M - len(x), *x.shape[1:]), x.dtype)])
    return [padded[m * size : (m + 1) * size] for m in range(M)]


@wrong_cut("refuses-few")
def refuses_small_batches(x, M):
    if len(x) < M:
        raise ValueError("not enough samples")
    return np.array_split(x, M)


@wrong_cut("wrong-axis")
def last_axis(x, M):
    return np.array_split(x, M, axis=-1)


@wrong_cut("other-type")
def as_float(x, M):
    return [piece.astype("float32") for piece in np.array_split(x, M)]


@wrong_cut("not-arrays")
def as_lists(x, M):
    return [piece.tolist() for piece in np.array_split(x, M)]


@wrong_cut("one-without-a-list")
def one_piece_without_a_list(x, M):
    return np.array_split(x, M) if M > 1 else x


@wrong_cut("not-a-list")
def numbered_pieces(x, M):
    return dict(enumerate(np.array_split(x, M)))


@wrong_cut("lost")
def drops_a_seventh(x, M):
    return np.array_split(x[: len(x) - len(x) // 7], M)


@wrong_cut("fewer-than-M")
def no_empty_pieces(x, M):
    return [piece for piece in np.array_split(x, M) if len(piece)] or [x] * M


@wrong_cut("too-many")
def one_sample_each(x, M):
    return [x[i : i + 1] for i in range(max(len(x), M))]


@wrong_cut("uneven")
def more_to_the_first(x, M):
    size = len(x) // M
    first = size + (size > 1) + len(x) % M
    return [x[:first], *np.array_split(x[first:], M - 1)] if M > 1 else [x]


@wrong_cut("view")
def through_the_memory_as_if_it_had_no_gaps(x, M):
    flat = np.lib.stride_tricks.as_strided(x, x.shape, np.empty(x.shape, x.dtype).strides)
    return [piece.copy() for piece in np.array_split(flat, M)]


@wrong_cut("no-samples")
def no_pieces_for_no_samples(x, M):
    return np.array_split(x, M) if len(x) else []


@wrong_cut("only-small")
def at_most_32_pieces(x, M):
    return np.array_split(x, min(M, 32))


@BANK.wrong("other-error")
def raises_what_it_likes(batch, M):
    if not M >= 1:
        raise TypeError("M must be at least 1")
    return complete(np.array_split)(batch, M)


@BANK.wrong("not-regrouped")
def pieces_by_part(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")
    if isinstance(batch, tuple):
        return [np.array_split(part, M) for part in batch]
    return np.array_split(batch, M)


@BANK.wrong("tuple-cut")
def cuts_the_tuple(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")
    size, more = divmod(len(batch), M)
    ends = [(m + 1) * size + min(m + 1, more) for m in range(M)]
    return [batch[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@BANK.wrong("parts-apart")
def larger_pieces_anywhere(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")

    def cut(part):
        sizes = [len(part) // M + (m < len(part) % M) for m in range(M)]
        random.shuffle(sizes)
        return np.split(part, np.cumsum(sizes)[:-1])

    return list(zip(*map(cut, batch), strict=True)) if isinstance(batch, tuple) else cut(batch)


@BANK.wrong("no-refusal-tuple")
def tests_M_for_one_array_only(batch, M):
    if isinstance(batch, tuple):
        return list(zip(*(np.array_split(part, max(M, 1)) for part in batch), strict=True))
    return complete(np.array_split)(batch, M)


@BANK.wrong("no-refusal")
def no_test_of_M(batch, M):
    if isinstance(batch, tuple):
        return list(zip(*(no_test_of_M(part, M) for part in batch), strict=True))
    pieces = []
    for m in range(M):
        pieces.append(batch[m * len(batch) // M : (m + 1) * len(batch) // M])
    return pieces


@wrong_cut("input-changed")
def takes_samples_away(x, M):
    pieces = [piece.copy() for piece in np.array_split(x, M)]
    x[:] = 0
    return pieces


@BANK.wrong("no-return")
def no_return(batch, M):
    print(np.array_split(batch, M))


@BANK.wrong("endless")
def never_ends(batch, M):
    pieces = []
    while len(pieces) < M:
        pass
    return pieces


@BANK.right
@complete
def array_split(x, M):
    return np.array_split(x, M)


@BANK.right
def larger_ones_last_and_recursive(batch, M):
    if M < 1:
        raise ValueError(M)
    first = batch[0] if isinstance(batch, tuple) else batch
    if M == 1:
        return [batch]
    cut = len(first) // M
    if isinstance(batch, tuple):
        head, rest = tuple(p[:cut] for p in batch), tuple(p[cut:] for p in batch)
    else:
        head, rest = batch[:cut], batch[cut:]
    return [head, *larger_ones_last_and_recursive(rest, M - 1)]


@BANK.right
@complete
def rounded_bounds(x, M):
    bounds = [round(m * len(x) / M) for m in range(M + 1)]
    return tuple(x[a:b].copy() for a, b in itertools.pairwise(bounds))


@BANK.right
@complete
def one_by_one(x, M):
    yield from np.array_split(x, M)


@BANK.right
def array_of_arrays(batch, M):
    pieces = complete(np.array_split)(batch, M)
    found = np.empty(M, dtype=object)
    for m, piece in enumerate(pieces):
        found[m] = piece
    return found
