"""Is this a cut of a mini-batch into micro-batches?

Any cut that is exact and even is right, wherever it puts the larger pieces. The batches hold distinct numbers, so a
sample that is lost, doubled or out of place shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.base.words import join_words, plural
from gpipe_edu.judge.case import Exam, Sign
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.networks import draw_digits
from gpipe_edu.process.plain import a_name_of, name_of


@dataclass(frozen=True)
class BatchCut:
    """What came of a batch, an array or a tuple of them: the pieces, and the batch after the call."""

    batch: Any
    M: int
    pieces: Any
    after: Any

    @property
    def parts(self) -> tuple[Array, ...]:
        """The arrays of the batch."""
        return _parts(self.batch)

    def of_part(self, index: int) -> ArrayCut:
        """The pieces of one array."""
        whole = not isinstance(self.batch, tuple)
        return ArrayCut(self.parts[index], self.M, [piece if whole else piece[index] for piece in self.pieces])


@dataclass(frozen=True)
class ArrayCut:
    """One array of a batch and its pieces."""

    whole: Array
    M: int
    pieces: list[Any]

    @property
    def N(self) -> int:
        """How many samples there are."""
        return len(self.whole)

    @property
    def sizes(self) -> list[int]:
        """Samples in each piece."""
        return [len(piece) if piece.ndim else 0 for piece in self.pieces]


def examine(exam: Exam, rng: Random) -> Success:
    """Small cases that name a slip, random ones that rule out shortcuts, tuples, refusals, and a training step."""
    small = [(12, 4), (5, 4), (10, 4), (3, 5), (7, 1), (6, 6), (13, 23)]
    drawn = [(rng.randint(1, 60), rng.randint(1, 20)) for _ in range(20)]
    for index, (N, M) in enumerate(small + drawn):
        _judge(exam, _batch(rng, N, [(), (3,), (2, 2), (1,)][index % 4]), M)
    with exam.blame_on("remembers"):
        _judge(exam, _batch(rng, 12, ()), 4, before=_batch(rng, 12, ()))
    several: list[list[tuple[int, ...]]] = [[(), (3,)], [(2,), (), (1, 2)], [(4,)]]
    for N, M in [(10, 4), (2, 3), (rng.randint(5, 40), rng.randint(2, 8))]:
        for widths in several:
            _judge(exam, tuple(_batch(rng, N, width) for width in widths), M)
    with exam.blame_on("no-samples"):
        _judge(exam, _batch(rng, 0, (3,)), 4)
        _judge(exam, (_batch(rng, 0, ()), _batch(rng, 0, (3,))), 4)
    with exam.blame_on("only-small"):
        _judge(exam, _batch(rng, 2500, ()), 40)
        _judge(exam, _batch(rng, rng.randint(700, 900), ()), 100)
    with exam.blame_on("not-finite"):
        _judge(exam, np.array([1.0, np.nan, -0.0, np.inf, -2.5, np.nan]), 4)
    with exam.blame_on("view"):
        _judge(exam, _batch(rng, 10, (2,)), 4, view=True)
    six = _batch(rng, 6, ())
    for slip, batch in (("no-refusal", six), ("no-refusal-tuple", (six, six.copy()))):
        for M in (0, -rng.randint(1, 5)):
            case = exam.case(f"split({'two arrays' if isinstance(batch, tuple) else 'a batch'} of 6 samples, M={M})")
            case.refuses(Sign(slip, words={"M": M}), lambda value: _describe_pieces(value[0]), batch=batch, M=M)
    return _train(exam, rng)


def _batch(rng: Random, N: int, width: tuple[int, ...]) -> Array:
    """N samples, all numbers different, in no order, of any usual type."""
    count = N * int(np.prod(width))
    kind = rng.choice(["float64", "float64", "float32", "int64", "int32", "uint8"])
    if kind == "uint8" and count < 250:
        values = rng.sample(range(1, 256), count)
    else:
        kind = "float64" if kind == "uint8" else kind
        values = rng.sample([*range(-5 * count - 5, 0), *range(1, 5 * count + 6)], count)
    return np.array(values, dtype=kind).reshape(N, *width)


_UNPACKED: Final = ("ValueError: too many values to unpack", "ValueError: not enough values to unpack")
"""What Python says when a tuple has more or fewer parts than there are names for them."""

_NO_REST: Final = "ValueError: array split does not result in an equal division"
"""What `np.split` says of a batch with a remainder."""

_NOT_ONE_ARRAY: Final = "ValueError: setting an array element with a sequence."
"""What NumPy says when it is to make one array of several."""


def _judge(exam: Exam, batch: Any, M: int, view: bool = False, before: Array | None = None) -> list[Any]:
    """Judge one cut; returns its pieces."""
    parts, several = _parts(batch), isinstance(batch, tuple)
    N, shapes = len(parts[0]), ", ".join(str(part.shape) for part in parts)
    what = f"a tuple of arrays {shapes}" if several else f"an array of shape {shapes}"
    case = exam.case(f"split({what}, M={M})", f"a list of {plural(M, 'tuple' if several else 'array')}, {_sizes(N, M)}")
    few = dict.fromkeys(("ValueError", "ZeroDivisionError", "IndexError"), "refuses-few")
    case.words = {"parts": plural(len(parts), "part"), "N": N, "M": M}
    traps = {_NOT_ONE_ARRAY: "tuple-cut"} | dict.fromkeys(_UNPACKED, "other-parts") if several else {}
    traps |= (few if N < M else {}) | ({_NO_REST: "equal-only"} if N % M else {})
    pieces, after = case.ask(traps, batch=batch, M=M, view=view, before=before)
    case.came = _describe_pieces(pieces)
    case.judge(_signs(BatchCut(batch, M, pieces, after)))
    return list(pieces)


def _signs(cut: BatchCut) -> Iterator[Sign]:
    pieces, parts, M = cut.pieces, cut.parts, cut.M
    yield Sign("no-return", pieces is None, came="None")
    same = all(_are_same(was, now) for was, now in zip(parts, _parts(cut.after), strict=True))
    yield Sign("input-changed", not same)
    kind = {"kind": a_name_of(pieces)}
    yield Sign("not-a-list" if M > 1 else "one-without-a-list", not isinstance(pieces, list), words=kind)
    if isinstance(cut.batch, tuple):
        tuples = all(isinstance(piece, tuple | list) and len(piece) == len(parts) for piece in pieces)
        by_part = len(pieces) == len(parts) and all(isinstance(p, list | tuple) and len(p) == M for p in pieces)
        yield Sign("not-regrouped", not tuples and by_part)
        yield Sign("parts-missing", not tuples and _has_cut_some_parts(cut), words={"parts": len(parts)})
        yield Sign("tuple-cut", not tuples)
    whole = [index for index in range(len(parts)) if M > 1 and _is_whole(cut.of_part(index))]
    yield Sign("not-cut", len(whole) == len(parts), came=f"the whole batch, as {plural(len(pieces), 'piece')}")
    for index in whole:
        difference = f"part {index} has all {len(parts[index])} samples in each piece"
        yield Sign("part-whole", difference=difference, words={"index": index, "last": len(parts) - 1})
    for index in range(len(parts)):
        yield from _signs_of_part(cut.of_part(index))
    lengths = [[len(part) for part in piece] for piece in pieces] if isinstance(cut.batch, tuple) else []
    for m, samples in enumerate(lengths):
        yield Sign("parts-apart", len(set(samples)) > 1, difference=f"piece {m} has {samples} samples in its parts")


def _signs_of_part(part: ArrayCut) -> Iterator[Sign]:
    for piece in part.pieces:
        yield Sign("not-arrays", not isinstance(piece, np.ndarray), words={"kind": a_name_of(piece)})
    for m, piece in enumerate(part.pieces):
        difference = f"piece {m} has shape {piece.shape}"
        yield Sign("wrong-axis", piece.shape[1:] != part.whole.shape[1:], difference=difference)
    yield from _about_the_count(part)
    together = np.concatenate(part.pieces) if part.pieces else part.whole[:0]
    types = {"before": part.whole.dtype, "now": together.dtype}
    yield Sign("other-type", together.dtype != part.whole.dtype, words=types)
    if not _are_same(together, part.whole):
        yield from _about_the_values(part, together)
    yield from _about_evenness(part)


def _is_whole(part: ArrayCut) -> bool:
    """Whether every piece is the whole array, which could be cut."""
    arrays = [piece for piece in part.pieces if isinstance(piece, np.ndarray)]
    return (
        part.N > 1
        and bool(arrays)
        and len(arrays) == len(part.pieces)
        and all(_are_same(one, part.whole) for one in arrays)
    )


def _about_the_count(part: ArrayCut) -> Iterator[Sign]:
    N, M, sizes = part.N, part.M, part.sizes
    wrong = len(sizes) != M
    came = f"{len(sizes)} pieces of sizes {join_words(sizes)}" if sizes else "no pieces"
    yield Sign("size-M", wrong and bool(sizes) and sizes == [min(M, N - start) for start in range(0, N, M)], came=came)
    rest = sum(sizes) == N and len(set(sizes[:-1])) == 1 and sizes[-1] == N % M > 0
    yield Sign("one-more", len(sizes) == M + 1 and rest, came=came)
    yield Sign("fewer-than-M", len(sizes) == N < M, came=came)
    yield Sign("too-few", len(sizes) < M, came=came)
    yield Sign("too-many", wrong, came=came)


def _about_the_values(part: ArrayCut, together: Array) -> Iterator[Sign]:
    """For pieces that are not the batch when put `together`."""
    N, M, sizes, count = part.N, part.M, part.sizes, len(together)
    came = f"sizes {join_words(sizes) or 'none'}"
    missing, alike = f"{N - count} of {N} samples are missing", len(set(sizes)) == 1
    rest = {"size": N // M, "rest": N % M}
    yield Sign("remainder-lost", alike and count == N - N % M < N, came=came, difference=missing, words=rest)
    by_floats = [int(N / M * (m + 1)) - int(N / M * m) for m in range(M)]
    yield Sign("float-bounds", sizes == by_floats and count < N, came=came, difference=missing)
    yield Sign("lost", count < N, came=came, difference=missing)
    yield Sign("doubled", count > N, came=came, difference=f"{count} samples came from {N}")
    moved = next((i for i in range(N) if not np.array_equal(together[i], part.whole[i])), 0)
    difference = f"sample {moved} of the batch is not in its place"
    dealt = all(np.array_equal(piece, part.whole[m::M]) for m, piece in enumerate(part.pieces))
    yield Sign("dealt", dealt, came=came, difference=difference)
    same = sorted(map(repr, together.tolist())) == sorted(map(repr, part.whole.tolist()))
    yield Sign("order", same, came=came, difference=difference)
    yield Sign("invented", came=came, difference=difference)


def _about_evenness(part: ArrayCut) -> Iterator[Sign]:
    N, M, sizes = part.N, part.M, part.sizes
    if max(sizes) - min(sizes) <= 1:
        return
    large, small = (f"piece {sizes.index(size)} has {size}" for size in (max(sizes), min(sizes)))
    came, difference = f"sizes {join_words(sizes)}", f"{large} samples, {small}"
    even = [float(N // M + (m < N % M)) for m in range(M)]
    mine, better = (
        Chart(name, str(gpipe(3, M)), sizes=lane)
        for name, lane in (("your pieces", list(map(float, sizes))), ("even pieces", even))
    )
    charts = (mine, better) if M <= 12 else ()
    last = max(sizes) == sizes[-1] and len(set(sizes[:-1])) <= 1
    yield Sign("remainder-last", last, came=came, difference=difference, charts=charts)
    yield Sign("ceiling", sizes[0] == -(-N // M), came=came, difference=difference, charts=charts)
    yield Sign("uneven", came=came, difference=difference, charts=charts)


def _train(exam: Exam, rng: Random) -> Success:
    """The pieces of real digits, each trained alone, weighted and added, against one device with the whole batch."""
    x, y = draw_digits(rng, 50)
    pieces = _judge(exam, (x, y), 8)
    layers = ref.mlp([64, 32, 10], seed=0)
    _, exact = ref.train_sequential(layers, x, y)
    sums = [{name: np.zeros_like(value) for name, value in grads.items()} for grads in exact]
    for images, labels in pieces:
        share = len(images) / len(x)
        _, grads = ref.train_sequential(layers, images, labels)
        sums = ref.accumulate_grads(sums, [{name: share * value for name, value in g.items()} for g in grads])
    error = ref.gradient_difference(sums, exact)
    sizes = [len(images) for images, _ in pieces]
    chart = Chart("your micro-batches on 4 devices", str(gpipe(4, 8)), sizes=list(map(float, sizes)))
    return exam.success(chart, sizes=join_words(sizes), error=error)


def _are_same(a: Array, b: Array) -> bool:
    """Whether all numbers are the same, nan included."""
    return a.shape == b.shape and bool(np.all((a == b) | (a != a) & (b != b)))


def _has_cut_some_parts(cut: BatchCut) -> bool:
    """Whether all pieces are tuples of equally many parts, cut, but fewer than the batch has."""
    known = [piece for piece in cut.pieces if isinstance(piece, tuple | list) and piece]
    arrays = len(known) == len(cut.pieces) and all(isinstance(each, np.ndarray) for piece in known for each in piece)
    if not arrays or len({len(piece) for piece in known}) != 1:
        return False
    return len(known[0]) < len(cut.parts) and sum(len(piece[0]) for piece in known) == len(cut.parts[0])


def _parts(batch: Any) -> tuple[Array, ...]:
    return batch if isinstance(batch, tuple) else (batch,)


def _sizes(N: int, M: int) -> str:
    small, more = divmod(N, M)
    return f"{more} of {plural(small + 1, 'sample')} and {M - more} of {small}" if more else f"each of {small}"


def _describe_pieces(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"one array of shape {value.shape}"
    if isinstance(value, list | tuple):
        kinds = [f"array {piece.shape}" if isinstance(piece, np.ndarray) else name_of(piece) for piece in value]
        return f"{a_name_of(value)} of {len(value)}: {join_words(kinds, 6)}" if value else f"an empty {name_of(value)}"
    return getattr(value, "text", repr(value))
