"""Exercise 08: running statistics that see the mini-batch, from what the micro-batches tell.

The truth is NumPy's mean and variance of all samples at once. The first cases are small and in round numbers, so that
they can be written out and tried by hand; features differ in mean from micro-batch to micro-batch, so that no shortcut
is right by chance. Wrong values are compared with those that each misconception would have given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu import gpipe, split_batch
from gpipe_edu import reference as ref
from gpipe_edu.base.words import tell_apart
from gpipe_edu.judge.case import Belief, Exam, Sign, Signs, try_beliefs
from gpipe_edu.judge.findings import Chart, Success
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.networks import draw_digits
from gpipe_edu.process.plain import name_of

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

_FAR: Final = 1e5
"""A mean, with a spread of about 1, at which the mean of the squares less the squared mean loses digits: these begin 10
places before the variance, and float64 has 16. A sum of squared distances loses none that are asked for.
"""


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
    for _ in range(20):
        N, M, momentum = rng.randint(2, 40), rng.randint(1, 8), rng.choice([0.05, 0.1, 0.5])
        x = numbers.normal(size=(N, 3)) * numbers.uniform(0.5, 3, 3) + numbers.normal(size=3) * 5
        x += np.linspace(-2, 2, N)[:, None]
        pieces = [piece for piece in split_batch(x, M) if len(piece)]
        _judge(exam, pieces, numbers.normal(size=3), numbers.uniform(0.5, 2, 3), momentum)
    with exam.blame_on("far-mean", far=f"{_FAR:,.0f}"):
        x = numbers.normal(size=(11, 2)) + np.linspace(-2, 2, 11)[:, None] + _FAR
        _judge(exam, split_batch(x, 3), np.zeros(2), np.ones(2), 1.0)
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


class UpdateQuestion(NamedTuple):
    """What the function gets; a momentum of None is left out."""

    running_mean: Array
    running_var: Array
    counts: list[int]
    means: list[Array]
    variances: list[Array]
    momentum: float | None

    @property
    def rate(self) -> float:
        """The momentum, which is 0.1 if it is left out."""
        return 0.1 if self.momentum is None else self.momentum

    def mix(self, old: Array, new: Any) -> Array:
        """One step of a running value."""
        return np.asarray((1 - self.rate) * old + self.rate * new)

    @property
    def call(self) -> str:
        """In code, so that it can be tried if it is small."""
        last = [] if self.momentum is None else [f"momentum={self.momentum:g}"]
        if len(self.running_mean) > 2:
            names = ["running_mean", "running_var", f"counts={self.counts}", "means", "variances"]
            return f"deferred_update({', '.join([*names, *last])})"
        arrays = {name: np.array(getattr(self, name)).tolist() for name in self._fields[:5]}
        lines = [
            f"{name}={value}" if name == "counts" else f"{name}=np.array({value})" for name, value in arrays.items()
        ]
        return "\n".join(["deferred_update(", *(f"    {line}," for line in [*lines, *last]), ")"])


@dataclass(frozen=True)
class Update:
    """One call: what was asked, the running values that came, and the true ones."""

    asked: UpdateQuestion
    mean: Array
    var: Array
    true_mean: Array
    true_var: Array

    @property
    def digits_lost(self) -> Sign:
        """For values that are nearly right."""
        far = np.abs(self.asked.means).max() > _FAR / 2
        return Sign("far-mean", words={"far": f"{_FAR:,.0f}"}) if far else Sign("rounded")


def about_mean(update: Update) -> Signs:
    """For a running mean that is wrong."""
    asked, mean, truth = update.asked, update.mean, update.true_mean
    if _near(mean, truth):
        return
    yield Sign("swapped", _near(mean, update.true_var) and _near(update.var, truth))
    if _near(mean, truth, 1e-4):
        yield update.digits_lost
        return
    old, means = asked.running_mean, asked.means
    exact = (np.array(asked.counts) / sum(asked.counts)) @ np.array(means)
    beliefs = [
        *_beliefs_about_momentum(asked, old, exact, means),
        Belief("mean-of-means", (asked.mix(old, np.mean(means, axis=0)),)),
    ]
    for sign in try_beliefs(beliefs, lambda guess: _near(mean, guess)):
        yield sign._replace(words={"what": "mean"})
    yield Sign("other-mean")


def _beliefs_about_momentum(asked: UpdateQuestion, old: Array, exact: Array, *parts: list[Array]) -> list[Belief]:
    """How the new value of a mini-batch and the old one are put together. parts: what micro-batches may give, each."""
    rate = asked.rate
    return [
        Belief("momentum-ignored", (0.9 * old + 0.1 * exact,)),
        Belief("per-micro-batch", tuple(chain(*(_one_by_one(asked, old, each) for each in parts)))),
        Belief("momentum-reversed", (rate * old + (1 - rate) * exact,)),
        Belief("no-running", (exact,)),
        Belief("last-only", tuple(asked.mix(old, each[-1]) for each in parts)),
        Belief("adds-up", (old + rate * exact,)),
    ]


def _one_by_one(asked: UpdateQuestion, old: Array, parts: list[Array]) -> Iterator[Array]:
    """A step for each micro-batch: each with the whole momentum, or with its share of it, or with an M-th."""
    M, N = len(asked.counts), sum(asked.counts)
    for rates in ([1.0] * M, [n / N for n in asked.counts], [1 / M] * M):
        value = old
        for rate, one in zip(rates, parts, strict=True):
            value = value + asked.rate * rate * (one - value)
        yield value


def about_variance(update: Update) -> Signs:
    """For a running variance that is wrong, where the running mean is right."""
    asked, var, truth = update.asked, update.var, update.true_var
    if _near(var, truth):
        return
    counts, means, variances = asked.counts, asked.means, asked.variances
    N = sum(counts)
    shares = np.array(counts) / N
    mean = shares @ np.array(means)
    within, between = shares @ np.array(variances), shares @ (np.array(means) - mean) ** 2
    whole, bessel, by_N_M = within + between, N / max(N - 1, 1), N / max(N - len(counts), 1)
    single = [v * n / max(n - 1, 1) for v, n in zip(variances, counts, strict=True)]
    if _near(var, truth, 1e-4) and (_near(var, truth, 1e-6) or not _is_lifted(var - truth, whole * bessel)):
        yield update.digits_lost
        return
    yield Sign("floor", _is_lifted(var - truth, whole * bessel))
    averages = within, np.mean(variances, axis=0)
    corrected = shares @ np.array(single)
    around_old = shares @ (np.array(means) - asked.running_mean) ** 2
    roots = (shares @ np.sqrt(variances)) ** 2
    of_roots = roots, roots + between, (shares @ np.sqrt(variances + (np.array(means) - mean) ** 2)) ** 2
    unweighted = [(np.array(means) - around) ** 2 for around in (mean, np.mean(means, axis=0))]
    beliefs = [
        Belief("biased", (whole,)),
        Belief("corrects-a-part", (within * bessel + between, within + between * bessel)),
        Belief("mean-of-variances", tuple(value * factor for value in averages for factor in (1, bessel))),
        Belief("pooled", (corrected, np.mean(single, axis=0))),
        Belief("corrected-first", tuple((corrected + between) * factor for factor in (1, bessel))),
        Belief("divided-by-N-M", (whole * by_N_M, within * by_N_M)),
        Belief("between-unweighted", tuple((within + np.mean(d, axis=0)) * bessel for d in unweighted)),
        Belief("around-the-old-mean", tuple((within + around_old) * factor for factor in (1, bessel))),
        Belief("deviations-averaged", tuple(value * factor for value in of_roots for factor in (1, bessel))),
        Belief("corrected-by-M", (whole * len(counts) / max(len(counts) - 1, 1),)),
        Belief("between-only", (between * bessel, between)),
        Belief("standard-deviation", (np.sqrt(whole * bessel),)),
        Belief("raw-moment", ((whole + mean**2) * bessel,)),
    ]
    yield from try_beliefs(beliefs, lambda guess: _near(var, asked.mix(asked.running_var, guess)))
    corrected_old = Belief("corrects-the-old", (asked.mix(asked.running_var, whole) * bessel,))
    alone = single, variances, [v * bessel for v in variances]
    of_the_new = _beliefs_about_momentum(asked, asked.running_var, whole * bessel, *alone)
    for sign in try_beliefs([corrected_old, *of_the_new], lambda guess: _near(var, guess)):
        yield sign._replace(words={"what": "variance"})
    yield Sign("other-variance")


def _is_lifted(more: Array, variance: Array) -> bool:
    """Whether something was added to small variances only, or the same little to all."""
    off = np.abs(more) > 1e-9
    if not off.any() or not (more[off] > 0).all():
        return False
    return bool((variance[off] < 1e-3).all() or (np.ptp(more) < 1e-9 and more.max() <= 0.01))


def _near(ours: Array, theirs: Array, off: float = 1e-9) -> bool:
    """Whether they agree, up to a share of `off`."""
    return bool(np.allclose(ours, theirs, rtol=off, atol=1e-11))


def write_in_digits(expected: Array, came: Array) -> tuple[str, str]:
    """Both as text, each number with as many digits as it takes to see that it differs from the other."""
    pairs = [_write_pair(*pair) for pair in zip(expected, came, strict=True)]
    ours, theirs = (", ".join(row) for row in zip(*pairs, strict=True))
    return ours, theirs


def _write_pair(expected: float, came: float) -> tuple[str, str]:
    if _near(np.array(came), np.array(expected)):
        return f"{expected:.6g}", f"{came:.6g}"
    return tell_apart(expected, came)
