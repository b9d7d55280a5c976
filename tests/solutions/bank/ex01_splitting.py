"""Exercise 01. Where a slip concerns the sizes, tuples and M < 1 are handled well, so that only the slip is left."""

import math
import random
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex01/splitting")


@BANK.right
def array_split(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")
    if isinstance(batch, tuple):
        return list(zip(*(array_split(part, M) for part in batch), strict=True))
    x = batch
    return np.array_split(x, M)


def cut(slip, name, pieces):
    """Adds an answer that differs in how it cuts one array."""
    BANK.changed(slip, name, "np.array_split(x, M)", pieces)


cut("remainder-lost", "floor_size", "[x[m * (len(x) // M) : (m + 1) * (len(x) // M)] for m in range(M)]")
cut("remainder-last", "rest_to_the_last", "np.split(x, [m * (len(x) // M) for m in range(1, M)])")
cut(
    "too-few", "like_torch_chunk", "[x[i : i + math.ceil(len(x) / M)] for i in range(0, len(x), math.ceil(len(x) / M))]"
)
cut(
    "ceiling",
    "ceiling_and_empty_ones",
    "[x[m * math.ceil(len(x) / M) : (m + 1) * math.ceil(len(x) / M)] for m in range(M)]",
)
cut("size-M", "pieces_of_size_M", "[x[start : start + M] for start in range(0, len(x), M)]")
cut("dealt", "strided", "[x[m::M] for m in range(M)]")
cut("order", "shuffled_first", "np.array_split(np.random.default_rng(0).permutation(x), M)")
cut(
    "invented",
    "random_of_the_right_shape",
    "[np.random.rand(*piece.shape).astype(x.dtype) for piece in np.array_split(x, M)]",
)
cut("not-cut", "the_batch_for_each", "[x] * M")
cut("equal-only", "equal_division", "np.split(x, M)")
cut("wrong-axis", "last_axis", "np.array_split(x, M, axis=-1)")
cut("other-type", "as_float", '[piece.astype("float32") for piece in np.array_split(x, M)]')
cut("not-arrays", "as_lists", "[piece.tolist() for piece in np.array_split(x, M)]")
cut("one-without-a-list", "one_piece_without_a_list", "np.array_split(x, M) if M > 1 else x")
cut("not-a-list", "numbered_pieces", "dict(enumerate(np.array_split(x, M)))")
cut("lost", "drops_a_seventh", "np.array_split(x[: len(x) - len(x) // 7], M)")
cut("fewer-than-M", "no_empty_pieces", "[piece for piece in np.array_split(x, M) if len(piece)] or [x] * M")
cut("too-many", "one_sample_each", "[x[i : i + 1] for i in range(max(len(x), M))]")
cut("no-samples", "no_pieces_for_no_samples", "np.array_split(x, M) if len(x) else []")
cut("too-many", "an_empty_one_at_the_end", "[*np.array_split(x, M), x[:0]]")
cut("invented", "without_signs", "[abs(piece) if x.dtype.kind == 'f' else piece for piece in np.array_split(x, M)]")
cut("not-finite", "without_nan", "[np.nan_to_num(piece) for piece in np.array_split(x, M)]")
cut(
    "wrong-axis",
    "axes_of_length_1_are_dropped",
    "[p[:, 0] if p.shape[1:] == (1,) else p for p in np.array_split(x, M)]",
)
cut("other-type", "whole_numbers_as_int64", "np.array_split(x.astype(np.int64) if x.dtype.kind in 'iu' else x, M)")
cut(
    "only-small",
    "other_sizes_beyond_64",
    "[x[m : m + 1] for m in range(M - 1)] + [x[M - 1 :]] if M > 64 else np.array_split(x, M)",
)
cut("only-small", "at_most_32_pieces", "np.array_split(x, min(M, 32))")
BANK.changed(
    "refuses-few",
    "refuses_small_batches",
    "x = batch",
    "x = batch\n    if len(x) < M:\n        raise ValueError('not enough samples')",
)
BANK.changed("other-error", "raises_what_it_likes", "ValueError", "TypeError")
BANK.changed("not-regrouped", "pieces_by_part", "list(zip(*(", "list(((", ", strict=True", "")
BANK.changed(
    "no-refusal-tuple",
    "tests_M_for_one_array_only",
    "M < 1",
    "M < 1 and not isinstance(batch, tuple)",
    "part, M",
    "part, max(M, 1)",
)
BANK.changed("no-return", "no_return", "return np.array_split(x, M)", "print(np.array_split(x, M))")
BANK.changed("endless", "never_ends", "x = batch", "x = batch\n    while M > 0:\n        pass")


def wrong_cut(slip):
    """Decorates a cut of one array that takes more than a line."""
    return lambda function: BANK.wrong(slip)(complete(function))


def complete(cut):
    """What a careful learner puts around it."""

    def split(batch, M):
        if M < 1:
            raise ValueError("M must be at least 1")
        if isinstance(batch, tuple):
            return list(zip(*(cut(part, M) for part in batch), strict=True))
        return cut(batch, M)

    split.__name__ = cut.__name__
    return split


@wrong_cut("one-more")
def rest_as_a_piece(x, M):
    size = max(1, len(x) // M)
    pieces = [x[m * size : (m + 1) * size] for m in range(M)]
    return [*pieces, x[M * size :]] if len(x) > M * size else pieces


@wrong_cut("doubled")
def padded_to_equal_sizes(x, M):
    size = math.ceil(len(x) / M)
    padded = np.concatenate([x, np.zeros((size * M - len(x), *x.shape[1:]), x.dtype)])
    return [padded[m * size : (m + 1) * size] for m in range(M)]


@wrong_cut("uneven")
def more_to_the_first(x, M):
    size = len(x) // M
    first = size + (size > 1) + len(x) % M
    return [x[:first], *np.array_split(x[first:], M - 1)] if M > 1 else [x]


@wrong_cut("view")
def through_the_memory_as_if_it_had_no_gaps(x, M):
    flat = np.lib.stride_tricks.as_strided(x, x.shape, np.empty(x.shape, x.dtype).strides)
    return [piece.copy() for piece in np.array_split(flat, M)]


@wrong_cut("input-changed")
def takes_samples_away(x, M):
    pieces = [piece.copy() for piece in np.array_split(x, M)]
    x[:] = 0
    return pieces


@BANK.wrong("tuple-cut")
def cuts_the_tuple(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")
    size, more = divmod(len(batch), M)
    ends = [(m + 1) * size + min(m + 1, more) for m in range(M)]
    return [batch[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@BANK.wrong("tuple-cut")
def hands_the_tuple_to_numpy(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")
    return list(np.array_split(batch, M))


@BANK.wrong("parts-apart")
def larger_pieces_anywhere(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")

    def cut(part):
        sizes = [len(part) // M + (m < len(part) % M) for m in range(M)]
        random.shuffle(sizes)
        return np.split(part, np.cumsum(sizes)[:-1])

    return list(zip(*map(cut, batch), strict=True)) if isinstance(batch, tuple) else cut(batch)


@BANK.wrong("no-refusal")
def no_test_of_M(batch, M):
    if isinstance(batch, tuple):
        return list(zip(*(no_test_of_M(part, M) for part in batch), strict=True))
    return [batch[m * len(batch) // M : (m + 1) * len(batch) // M] for m in range(M)]


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


cut(
    "",
    "rounded_bounds",
    "tuple(piece.copy() for piece in np.split(x, [round(m * len(x) / M) for m in range(1, M)]))",
)
cut("", "one_by_one", "iter(np.array_split(x, M))")


@BANK.right
def array_of_arrays(batch, M):
    found = np.empty(M, dtype=object)
    for m, piece in enumerate(array_split(batch, M)):
        found[m] = piece
    return found


class Pieces:
    """Cuts only the pieces that are asked for."""

    def __init__(self, batch, M):
        self.batch, self.M = batch, M

    def __len__(self):
        return self.M

    def __getitem__(self, m):
        if not 0 <= m < self.M:
            raise IndexError(m)
        parts = self.batch if isinstance(self.batch, tuple) else (self.batch,)
        N = len(parts[0])
        piece = tuple(part[m * N // self.M : (m + 1) * N // self.M] for part in parts)
        return piece if isinstance(self.batch, tuple) else piece[0]


@BANK.right
def one_piece_when_asked(batch, M):
    if M < 1:
        raise ValueError(M)
    return Pieces(batch, M)


KEPT = {}


@wrong_cut("remembers")
def pieces_kept_by_size(x, M):
    return KEPT.setdefault((x.shape, M), np.array_split(x, M))


@wrong_cut("remembers")
def pieces_kept_by_identity(x, M):
    return KEPT.setdefault((id(x), len(x), M), [piece.copy() for piece in np.array_split(x, M)])


@BANK.wrong("other-parts")
def only_pairs(batch, M):
    if isinstance(batch, tuple):
        x, y = batch
        return list(zip(complete(np.array_split)(x, M), complete(np.array_split)(y, M), strict=True))
    return complete(np.array_split)(batch, M)


@BANK.wrong("part-whole")
def labels_whole_beside_each_piece(batch, M):
    if isinstance(batch, tuple):
        first, *others = batch
        return [(piece, *others) for piece in complete(np.array_split)(first, M)]
    return complete(np.array_split)(batch, M)


@BANK.wrong("part-whole")
def cuts_the_last_part_only(batch, M):
    if isinstance(batch, tuple):
        *others, last = batch
        return [(*others, piece) for piece in complete(np.array_split)(last, M)]
    return complete(np.array_split)(batch, M)


@BANK.wrong("parts-missing")
def images_and_labels_only(batch, M):
    if isinstance(batch, tuple):
        return list(zip(complete(np.array_split)(batch[0], M), complete(np.array_split)(batch[1], M), strict=True))
    return complete(np.array_split)(batch, M)


@wrong_cut("handed-out-again")
def views_of_one_buffer(x, M):
    buffer = BUFFER[: x.nbytes].view(x.dtype).reshape(x.shape)
    buffer[...] = x
    return np.array_split(buffer, M)


@wrong_cut("float-bounds")
def bounds_with_fractions(x, M):
    size = len(x) / M
    return [x[int(m * size) : int((m + 1) * size)] for m in range(M)]


@wrong_cut("not-arrays")
def arrays_of_objects(x, M):
    return [piece.astype(object) for piece in np.array_split(x, M)]


@wrong_cut("input-changed")
def sorts_it_first(x, M):
    x.sort(axis=0)
    return np.array_split(x, M)


@dataclass(frozen=True)
class Run:
    """Neighbouring samples."""

    start: int
    size: int

    @property
    def end(self):
        return self.start + self.size

    def of(self, array):
        return array[self.start : self.end]


@BANK.right
def runs_one_behind_the_other(batch, M):
    if M < 1:
        raise ValueError(f"cannot cut a batch into {M} pieces")
    parts = batch if isinstance(batch, tuple) else (batch,)
    size, larger = divmod(len(parts[0]), M)
    runs = [Run(0, 0)]
    for m in range(M):
        runs.append(Run(runs[-1].end, size + (m < larger)))
    pieces = [tuple(run.of(part) for part in parts) for run in runs[1:]]
    return pieces if isinstance(batch, tuple) else [piece[0] for piece in pieces]


class Form(Enum):
    ARRAY = "one array"
    TUPLE = "a tuple of arrays"

    @classmethod
    def of(cls, batch):
        return cls.TUPLE if isinstance(batch, tuple) else cls.ARRAY


class Bounds(NamedTuple):
    start: int
    end: int


@BANK.right
def bounds_for_either_form(batch, M):
    form = Form.of(batch)
    if M < 1:
        raise ValueError(f"{form.value} cannot be cut into {M} pieces")
    N = len(batch) if form is Form.ARRAY else len(batch[0])
    bounds = [Bounds(start=m * N // M, end=(m + 1) * N // M) for m in range(M)]
    if form is Form.ARRAY:
        return [batch[start:end] for start, end in bounds]
    return [tuple(part[one.start : one.end] for part in batch) for one in bounds]


BUFFER = np.zeros(10**6, np.uint8)
PIECES = []


@BANK.wrong("handed-out-again")
def one_list_for_all_batches(batch, M):
    PIECES[:] = array_split(batch, M)
    return PIECES
