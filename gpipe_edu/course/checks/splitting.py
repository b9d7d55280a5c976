"""Exercise 01: is this a cut of a mini-batch into micro-batches?

Any cut that is exact and even is right, wherever it puts the larger pieces. The batches hold distinct numbers, so a
sample that is lost, doubled or out of place shows.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import SLIPS, Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.process.plain import a_name_of, name_of

from .beliefs import told_as
from .pieces import listed, wrong_count, wrong_values

TASK: Final = Task(
    key="01-splitting",
    function="split",
    title="Cut a mini-batch into micro-batches",
    notebook="exercise_01_splitting",
    hints=(
        "Decide on the sizes first. N samples in M pieces: every piece gets N // M, and N % M samples are left over. "
        "Who takes those, so that no two pieces differ by more than one?",
        "Piece m starts where piece m - 1 ends. Keep a `start`, add the size of each piece to it, and slice "
        "`batch[start:end]`. Nothing special happens if N < M: some sizes are 0, and an empty slice is fine.",
        "For a tuple, cut every part by itself, then regroup: the lists of pieces [x0, x1, ...] and [y0, y1, ...] "
        "become [(x0, y0), (x1, y1), ...], which is what `zip` does. Begin the function with the test of M.",
    ),
)

HIDDEN: Final = {"gpipe_edu.split_batch": TASK.function}

_NO_COUNT: Final = "a cut into fewer than one piece is a slip of the caller: say so with ValueError"

_NO_SAMPLES: Final = "A batch without samples has M pieces, too: each is empty, and the shape of a sample stays."

_ONLY_SMALL: Final = "Small batches are cut well, this larger one is not: does a number in your code limit N or M?"


def perform(split: Any, batch: Any, M: int) -> Any:
    """The pieces, as a list even where they come one by one or in an array of arrays; and the batch afterwards."""
    found = split(batch, M)
    if isinstance(found, np.ndarray):
        whole = isinstance(batch, np.ndarray) and found.ndim <= batch.ndim and found.dtype != object
        return found if whole else list(found), batch
    if not isinstance(found, str | dict | set | list | tuple) and hasattr(found, "__iter__"):
        found = list(found)
    return found, batch


def examine(examiner: Examiner, rng: Random) -> Success:
    """Small cases that name a slip, random ones that leave no way around, tuples, refusals, and a training step."""
    small = [(12, 4), (5, 4), (10, 4), (3, 5), (7, 1), (6, 6)]
    drawn = [(rng.randint(1, 60), rng.randint(1, 20)) for _ in range(20)]
    for N, M in small + drawn:
        width = rng.choice([(), (3,), (2, 2)])
        _one(examiner, _batch(rng, N, width), M)
    for N, M in [(10, 4), (2, 3), (rng.randint(5, 40), rng.randint(2, 8))]:
        widths = [(), (3,)] if rng.random() < 0.5 else [(2,), (), (1, 2)]
        _one(examiner, tuple(_batch(rng, N, width) for width in widths), M)
    with told_as("no-samples", _NO_SAMPLES):
        _one(examiner, _batch(rng, 0, (3,)), 4)
    with told_as("only-small", _ONLY_SMALL):
        _one(examiner, _batch(rng, 1000, ()), 40)
    for M in (0, -rng.randint(1, 5)):
        call, because = f"split(a batch of 6 samples, M={M})", f"M = {M}: {_NO_COUNT}."
        batch = _batch(rng, 6, ())
        examiner.refuses(call, "no-refusal", because, lambda value: _shown(value[0]), batch=batch, M=M)
    return _train(examiner, rng)


def _batch(rng: Random, N: int, width: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """N samples, all numbers different, in no order."""
    values = np.array(rng.sample(range(1, 10 * N * int(np.prod(width)) + 10), N * int(np.prod(width))), dtype=float)
    if rng.random() < 0.3:
        values = values.astype(np.int64)
    return values.reshape(N, *width)


def _one(examiner: Examiner, batch: Any, M: int) -> list[Any]:
    """Judge one cut; returns its pieces."""
    parts = batch if isinstance(batch, tuple) else (batch,)
    N = len(parts[0])
    shapes = ", ".join(str(part.shape) for part in parts)
    what = f"a tuple of arrays {shapes}" if isinstance(batch, tuple) else f"an array of shape {shapes}"
    call = f"split({what}, M={M})"
    expected = f"a list of {M} {'tuple' if isinstance(batch, tuple) else 'array'}{'s' * (M > 1)}, {_sizes(N, M)}"
    traps = {}
    if N < M:
        few = "N < M is allowed: the last pieces are then empty, and the engines skip them."
        traps = dict.fromkeys(("ValueError", "ZeroDivisionError", "IndexError"), ("fewer-than-M", few))
    value, after = examiner.ask(call, traps, batch=batch, M=M)

    def wrong(slip: str, because: str, came: str = "", difference: str = "") -> Wrong:
        return Wrong(Finding(slip, because, call, expected, came or _shown(value), difference))

    if value is None:
        raise wrong("no-return", SLIPS["no-return"], "None")
    if not isinstance(value, list | tuple):
        single = " One piece is a list of one, too." if M == 1 else ""
        raise wrong("not-a-list", f"The answer is a list of pieces; this is {a_name_of(value)}.{single}")
    if isinstance(batch, tuple):
        _judge_tuples(batch, value, M, wrong)
        for index, part in enumerate(batch):
            _judge_pieces(part, [piece[index] for piece in value], M, wrong)
        lengths = [[len(part) for part in piece] for piece in value]
        uneven = next((m for m, piece in enumerate(lengths) if len(set(piece)) > 1), None)
        if uneven is not None:
            raise wrong(
                "parts-apart",
                "The parts of a tuple belong together: sample i of each part must land in the same piece.",
                difference=f"piece {uneven} has {lengths[uneven]} samples in its parts",
            )
    else:
        _judge_pieces(batch, list(value), M, wrong)
    before, later = parts, after if isinstance(batch, tuple) else (after,)
    if not all(np.array_equal(a, b) for a, b in zip(before, later, strict=True)):
        raise wrong("input-changed", "The batch itself was changed. The caller still needs it: cut, don't move.")
    return list(value)


def _judge_tuples(batch: tuple[Any, ...], value: Any, M: int, wrong: Blame) -> None:
    if all(isinstance(piece, tuple | list) and len(piece) == len(batch) for piece in value):
        return
    if len(value) == len(batch) and all(isinstance(part, list | tuple) and len(part) == M for part in value):
        raise wrong(
            "not-regrouped",
            "This is a list of pieces for each part. A stage gets one micro-batch at a time: one tuple a piece.",
        )
    raise wrong(
        "tuple-cut",
        "A tuple is not a batch of its items: each of its parts is cut along its samples, and every piece is a tuple.",
    )


def _judge_pieces(batch: np.ndarray[Any, Any], pieces: list[Any], M: int, wrong: Blame) -> None:
    N = len(batch)
    odd = next((piece for piece in pieces if not isinstance(piece, np.ndarray)), None)
    if odd is not None:
        raise wrong("not-arrays", f"Every piece is an array, as the batch is; one is {a_name_of(odd)}.")
    sizes = [len(piece) if piece.ndim else 0 for piece in pieces]
    told = f"sizes {listed(sizes) or 'none'}"
    shape = next((m for m, piece in enumerate(pieces) if piece.shape[1:] != batch.shape[1:]), None)
    if shape is not None:
        raise wrong(
            "wrong-axis",
            "Samples lie along the first axis. The other axes stay whole.",
            difference=f"piece {shape} has shape {pieces[shape].shape}",
        )
    if len(pieces) != M:
        raise wrong_count(N, M, sizes, wrong)
    together = np.concatenate(pieces) if pieces else batch[:0]
    if together.dtype != batch.dtype:
        raise wrong("other-type", f"The numbers changed their type from {batch.dtype} to {together.dtype}.")
    if not np.array_equal(together, batch):
        raise wrong_values(batch, pieces, together, told, wrong)
    if max(sizes) - min(sizes) > 1:
        last = max(sizes) == sizes[-1] and len(set(sizes[:-1])) <= 1
        ceiling = sizes[0] == -(-N // M)
        slip, because = "uneven", "No two pieces may differ by more than one sample: the largest sets everyone's pace."
        if last:
            slip = "remainder-last"
            because = "The whole remainder went to the last piece. The largest piece sets the pace, so share it out."
        elif ceiling:
            slip = "ceiling"
            because = "Every piece took N / M rounded up until nothing was left, so that the last ones got too little."
        lane = [float(size) for size in sizes]
        even = [float(N // M + (m < N % M)) for m in range(M)]
        rows = str(gpipe(3, M))
        charts = (Chart("your pieces", rows, sizes=lane), Chart("even pieces", rows, sizes=even)) if M <= 12 else ()
        difference = f"piece {sizes.index(max(sizes))} has {max(sizes)} samples, piece {sizes.index(min(sizes))} "
        raise Wrong(wrong(slip, because, told, difference + f"has {min(sizes)}").finding._replace(charts=charts))


def _train(examiner: Examiner, rng: Random) -> Success:
    """The pieces of real digits, each trained alone, weighted and added, against one device with the whole batch."""
    x, y, _, _ = digits()
    first = rng.randrange(0, 1000)
    x, y = np.asarray(x[first : first + 50], dtype=float), y[first : first + 50]
    pieces = _one(examiner, (x, y), 8)
    layers = ref.mlp([64, 32, 10], seed=0)
    loss, exact = ref.train_sequential(layers, x, y)
    total = 0.0
    sums = [{name: np.zeros_like(value) for name, value in grads.items()} for grads in exact]
    for images, labels in pieces:
        part, grads = ref.train_sequential(layers, images, labels)
        share = len(images) / len(x)
        total += share * part
        sums = ref.accumulate_grads(sums, [{name: share * value for name, value in g.items()} for g in grads])
    pairs = [(a[name], b[name]) for a, b in zip(sums, exact, strict=True) for name in a]
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)
    if error > 1e-12 or abs(total - loss) > 1e-12:
        because = "Trained piece by piece, the digits give another gradient than on one device."
        raise Wrong(Finding("other-gradient", because, "split((50 digits, 50 labels), M=8)"))
    sizes = [float(len(images)) for images, _ in pieces]
    words = (
        f"Then 50 handwritten digits were cut by your function into pieces of "
        f"{', '.join(f'{size:g}' for size in sizes)} and trained one by one: the gradients differ from "
        f"those of one device by at most {error:.0e}, which is rounding. In the chart, each op takes as long as "
        f"its piece is large."
    )
    return Success(words, (Chart("your micro-batches on 4 devices", str(gpipe(4, 8)), sizes=sizes),))


def _sizes(N: int, M: int) -> str:
    small, more = divmod(N, M)
    if not more:
        return f"each of {small}"
    return f"{more} of {small + 1} samples and {M - more} of {small}"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"one array of shape {value.shape}"
    if isinstance(value, list | tuple):
        kinds = [f"array {piece.shape}" if isinstance(piece, np.ndarray) else name_of(piece) for piece in value]
        return f"{a_name_of(value)} of {len(value)}: {listed(kinds, 6)}" if value else f"an empty {name_of(value)}"
    return getattr(value, "text", repr(value))
