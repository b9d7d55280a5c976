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
from gpipe_edu.course.judging import SLIPS, Examiner
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits
from gpipe_edu.process.plain import name_of

from .beliefs import told_as
from .running import Array, Given, in_digits, name_mean, name_variance, near

TASK: Final = Task(
    key="ex08/batchnorm",
    function="deferred_update",
    title="BatchNorm under micro-batches",
    notebook="exercise_08_batchnorm",
    hints=(
        "Forget the running values at first. From counts, means and variances of the micro-batches, what are mean and "
        "variance of all samples together? The mean is a weighted one.",
        "The variance of all samples has two parts: what the samples vary within their micro-batch, and how far the "
        "means of the micro-batches lie apart. Both are averages over samples.",
        "With N samples in all: variance = sum of n_m (variance_m + (mean_m - mean)^2) / N, and the unbiased one is "
        "that times N / (N - 1). Then, once: running = (1 - momentum) running + momentum new.",
    ),
)

_HANDY: Final = (
    ([3, 3, 3, 3], 0.1, 0.5),
    ([3, 3, 2, 2], 0.1, 0.5),
    ([4], 0.3, 0.5),
    ([3, 2, 2, 2], 1.0, 0.5),
    ([4, 4, 3], 0.0, 0.5),
    ([2], 0.5, 0.5),
    ([1, 1], 0.5, 0.5),
    ([3, 3, 2, 2], 1.0, 0.001),
)
"""Sizes of micro-batches, momentum, and the unit of the first feature; in the last case it hardly varies."""


def perform(deferred_update: Any, **given: Any) -> Any:
    """The new running values, and the inputs as they are afterwards. A momentum of None is left out."""
    found = deferred_update(*(value for value in given.values() if value is not None))
    if hasattr(found, "__next__"):
        found = list(found)
    if isinstance(found, tuple | list):
        found = tuple(part.detach().numpy() if hasattr(part, "detach") else part for part in found)
    elif hasattr(found, "detach"):
        found = found.detach().numpy()
    return found, list(given.values())


def examine(examiner: Examiner, rng: Random) -> Success:
    """Handy cases, without a momentum, then random ones; then a network with BatchNorm in the pipeline."""
    for counts, momentum, unit in _HANDY:
        _one(examiner, *_handy(np.random.default_rng(rng.randrange(2**32)), counts, np.array([unit, 0.5])), momentum)
    because = "Called without a momentum, it does something else than with 0.1. The stub says what counts then."
    with told_as("other-default", because):
        _one(examiner, *_handy(np.random.default_rng(rng.randrange(2**32)), [3, 2], np.array([0.5, 0.5])), None)
    for _ in range(20):
        N, M, momentum = rng.randint(2, 40), rng.randint(1, 8), rng.choice([0.05, 0.1, 0.5])
        numbers = np.random.default_rng(rng.randrange(2**32))
        x = numbers.normal(size=(N, 3)) * numbers.uniform(0.5, 3, 3) + numbers.normal(size=3) * 5
        x += np.linspace(-2, 2, N)[:, None]
        pieces = [piece for piece in split_batch(x, M) if len(piece)]
        _one(examiner, pieces, numbers.normal(size=3), numbers.uniform(0.5, 2, 3), momentum)
    return _train(examiner, rng)


def _handy(numbers: np.random.Generator, counts: list[int], units: Array) -> tuple[list[Array], Array, Array]:
    """Micro-batches of two features, whose means and variances are whole numbers of units, and old running values."""
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
    return [piece * units for piece in pieces], *old


def _one(examiner: Examiner, pieces: list[Array], old_mean: Array, old_var: Array, momentum: float | None) -> Any:
    counts = [len(piece) for piece in pieces]
    means, variances = [piece.mean(axis=0) for piece in pieces], [piece.var(axis=0) for piece in pieces]
    given = Given(old_mean, old_var, counts, means, variances, 0.1 if momentum is None else momentum)
    call = given.written(momentum is not None)
    traps = {"TypeError": ("other-default", "")} if momentum is None else {}
    value, after = examiner.ask(call, traps, **(given._asdict() | {"momentum": momentum}))
    everything = np.concatenate(pieces)
    truth = given.mixed(old_mean, everything.mean(axis=0)), given.mixed(old_var, everything.var(axis=0, ddof=1))

    def wrong(slip: str, because: str, expected: Any = "", came: Any = "") -> Wrong:
        return Wrong(Finding(slip, because, call, *in_digits(expected, came)))

    mean, var = _form(value, old_mean, wrong)
    if not all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(given[:5], after[:5], strict=True)):
        raise wrong("input-changed", "An input was changed. Give the new running values back, and leave the old ones.")
    if not near(mean, truth[0]):
        raise name_mean(mean, var, truth, given, wrong)
    if not near(var, truth[1]):
        raise name_variance(var, truth[1], given, wrong)
    return mean, var


def _form(value: Any, old: Array, wrong: Blame) -> tuple[Array, Array]:
    if value is None:
        raise wrong("no-return", SLIPS["no-return"], "", "None")
    flat = isinstance(value, np.ndarray) and value.ndim < 2
    if not isinstance(value, tuple | list | np.ndarray) or flat or len(value) != 2:
        shape = f", shape {value.shape}" if isinstance(value, np.ndarray) else ""
        because = "The answer is a pair: new running mean, new running variance."
        raise wrong("not-a-pair", because, "two arrays", name_of(value) + shape)
    arrays = [np.asarray(part, dtype=float) if isinstance(part, list | tuple) else part for part in value]
    for part in arrays:
        if not isinstance(part, np.ndarray) or part.shape != old.shape:
            shape = f"shape {part.shape}" if isinstance(part, np.ndarray) else name_of(part)
            because = "Both running values have one number per feature: is the average over micro-batches only?"
            raise wrong("other-shape", because, f"shape {old.shape}", shape)
    return arrays[0], arrays[1]


def _train(examiner: Examiner, rng: Random) -> Success:
    """A network with BatchNorm in the pipeline: its running values, updated by the learner, against the full batch."""
    x, _, _, _ = digits()
    first = rng.randrange(1000)
    x = np.asarray(x[first : first + 60], dtype=float)
    layers = ref.mlp([64, 6, 10], seed=rng.randrange(1000), norm="batch")
    hidden, _ = layers[0].forward(x)
    pieces = split_batch(hidden, 8)
    mean, var = _one(examiner, pieces, np.zeros(6), np.ones(6), 0.1)
    norm = ref.BatchNorm(6)
    labels = np.arange(60) % 10
    norm.update_running(ref.train_pipeline(layers, x, labels, gpipe(3, 8)).statistics[1])
    error = max(float(np.abs(mean - norm.running["mean"]).max()), float(np.abs(var - norm.running["variance"]).max()))
    if error > 1e-9:
        because = "For a network in the pipeline, the running values are not those of the engine."
        raise Wrong(Finding("other-running", because, came=f"off by {error:.0e}"))
    words = (
        f"Then 60 handwritten digits went in 8 micro-batches through a network with BatchNorm on the pipeline engine. "
        f"Its running values and yours differ by {error:.0e}. Training itself still normalizes by micro-batch: that "
        f"nobody can defer."
    )
    return Success(words, (Chart("8 micro-batches, one update at the end", str(gpipe(3, 8))),))
