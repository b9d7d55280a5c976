"""Exercise 08: running statistics that see the mini-batch, from what the micro-batches tell.

The truth is NumPy's mean and variance of all samples at once. The first cases are small and in round numbers, so that
they can be written out and tried by hand; features differ in mean from micro-batch to micro-batch, so that no shortcut
is right by chance.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

from gpipe_edu import gpipe, split_batch
from gpipe_edu import reference as ref
from gpipe_edu.judge.case import Exam, Sign, Signs
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.networks import draw_digits
from gpipe_edu.process.plain import name_of

from .running_values import Update, UpdateQuestion, about_mean, about_variance, write_in_digits

_HANDY: Final = (
    ([3, 3, 3, 3], 0.1, 0.5),
    ([3, 3, 2, 2], 0.1, 0.5),
    ([4], 0.3, 0.5),
    ([3, 2, 2, 2], 1.0, 0.5),
    ([4, 4, 3], 0.0, 0.5),
    ([2], 0.5, 0.5),
    ([3, 3, 2, 2], 1.0, 0.001),
)
"""Sizes of micro-batches, momentum, and the unit of the first feature; in the last case it hardly varies."""

_FAR: Final = 100_000.0
"""A mean at which a spread of 1 is right to 3e-11 from squared distances, and to 1e-8 at best from mean squares."""


def examine(exam: Exam, rng: Random) -> Success:
    """Handy cases, the first of them twice; no momentum, single samples, large means, random ones; then a network."""
    numbers = np.random.default_rng(rng.randrange(2**32))
    handy = [_handy(numbers, *case) for case in _HANDY]
    _judge(exam, *handy[0])
    with exam.blame_on("remembers", spare=["handed-out-again"]):
        _judge(exam, *handy[0])
    for case in handy[1:]:
        _judge(exam, *case)
    with exam.blame_on("other-default"):
        _judge(exam, *_handy(numbers, [3, 2], None, 0.5))
    with exam.blame_on("single"):
        for counts in ([3, 1], [1, 1]):
            _judge(exam, *_handy(numbers, counts, 0.1, 0.5))
    with exam.blame_on("many"):
        x = numbers.normal(size=(700, 2)) + np.linspace(-2, 2, 700)[:, None]
        for M in (2, 70):
            _judge(exam, split_batch(x, M), np.zeros(2), np.ones(2), 0.1)
    with exam.blame_on("one-feature"):
        _judge(exam, split_batch(numbers.normal(size=(10, 1)), 4), np.zeros(1), np.ones(1), 0.1)
    with exam.blame_on("cancellation", far=f"{_FAR:,.0f}"):
        x = numbers.normal(size=(11, 2)) + np.linspace(-2, 2, 11)[:, None] + _FAR
        _judge(exam, split_batch(x, 3), np.zeros(2), np.ones(2), 1.0)
    for _ in range(20):
        N, M, momentum = rng.randint(2, 40), rng.randint(1, 8), rng.choice([0.05, 0.1, 0.5])
        x = numbers.normal(size=(N, 3)) * numbers.uniform(0.5, 3, 3) + numbers.normal(size=3) * 5
        x += np.linspace(-2, 2, N)[:, None]
        pieces = [piece for piece in split_batch(x, M) if len(piece)]
        _judge(exam, pieces, numbers.normal(size=3), numbers.uniform(0.5, 2, 3), momentum)
    return _train(exam, rng)


def _handy(
    numbers: np.random.Generator, counts: list[int], momentum: float | None, unit: float
) -> tuple[list[Array], Array, Array, float | None]:
    """Micro-batches of two features, whose means and variances are whole numbers of units; then old values."""
    shares = np.array(counts) / sum(counts)
    while True:
        pieces = [n * numbers.integers(-2, 3, size=(n, 2)) for n in counts]
        means = np.array([piece.mean(axis=0) for piece in pieces])
        ragged, several = len(set(counts)) > 1, len(counts) > 1
        varies = all((piece.var(axis=0) > 0).all() for piece in pieces if len(piece) > 1)
        apart = not several or ((np.ptp(means, axis=0) > 0).all() and (np.abs(means[-1] - shares @ means) > 0.2).all())
        uneven = not ragged or (np.abs(means.mean(axis=0) - shares @ means) > 0.2).all()
        if varies and apart and uneven:
            break
    old = numbers.integers(-4, 5, size=2) * 0.5, numbers.integers(1, 9, size=2) * 0.25
    return [piece * np.array([unit, 0.5]) for piece in pieces], *old, momentum


def _judge(exam: Exam, pieces: list[Array], old_mean: Array, old_var: Array, momentum: float | None) -> Update:
    """Judge one call, which leaves out a momentum of None."""
    counts = [len(piece) for piece in pieces]
    means, variances = [piece.mean(axis=0) for piece in pieces], [piece.var(axis=0) for piece in pieces]
    asked = UpdateQuestion(old_mean, old_var, counts, means, variances, momentum)
    case = exam.case(asked.call)
    value, after = case.ask(**asked._asdict())
    case.judge(_about_form(value, asked))
    fields = zip(UpdateQuestion._fields, asked, after, strict=True)
    changed = [name for name, a, b in fields if not np.array_equal(np.asarray(a), np.asarray(b))]
    case.judge([Sign("input-changed", bool(changed), words={"changed": f"`{changed[0]}`"} if changed else {})])
    everything = np.concatenate(pieces)
    mean, var = (np.asarray(part, dtype=float) for part in value)
    true_mean = asked.mix(old_mean, everything.mean(axis=0))
    true_var = asked.mix(old_var, everything.var(axis=0, ddof=1))
    update = Update(asked, mean, var, true_mean, true_var)
    case.expected, case.came = write_in_digits(update.true_mean, update.mean)
    case.judge(about_mean(update))
    case.expected, case.came = write_in_digits(update.true_var, update.var)
    case.judge(about_variance(update))
    return update


def _about_form(value: Any, asked: UpdateQuestion) -> Signs:
    yield Sign("no-return", value is None, came="None")
    pair = isinstance(value, list) and len(value) == 2
    shape = f", shape {value.shape}" if isinstance(value, np.ndarray) else ""
    yield Sign("not-a-pair", not pair, expected="two arrays", came=name_of(value) + shape)
    lists = any(isinstance(part, list | tuple) for part in value)
    yield Sign("lists", lists, expected="two arrays", came="lists of numbers")
    wanted = asked.running_mean.shape
    for part in value:
        came = f"shape {np.shape(part)}" if isinstance(part, np.ndarray) else name_of(part)
        yield Sign("other-shape", np.shape(part) != wanted, expected=f"shape {wanted}", came=came)


def _train(exam: Exam, rng: Random) -> Success:
    """A network with BatchNorm in the pipeline: its running values, updated by the learner, against the full batch."""
    x, _ = draw_digits(rng, 60)
    layers = ref.mlp([64, 6, 10], seed=rng.randrange(1000), norm="batch")
    hidden, _ = layers[0].forward(x)
    update = _judge(exam, split_batch(hidden, 8), np.zeros(6), np.ones(6), 0.1)
    norm = ref.BatchNorm(6)
    norm.update_running(ref.train_pipeline(layers, x, np.arange(60) % 10, gpipe(3, 8)).statistics[1])
    pairs = ((update.mean, norm.running["mean"]), (update.var, norm.running["variance"]))
    error = max(float(np.abs(ours - engines).max()) for ours, engines in pairs)
    return exam.success(Chart("8 micro-batches, one update at the end", str(gpipe(3, 8))), error=error)
