"""Exercise 08: running statistics that see the mini-batch, from what the micro-batches tell.

The truth is NumPy's mean and variance of all samples at once. Wrong answers are held against the shortcuts that people
take; features differ in mean from micro-batch to micro-batch, so that no shortcut is right by chance.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu import gpipe, split_batch
from gpipe_edu import reference as ref
from gpipe_edu.course.judging import SLIPS, Examiner
from gpipe_edu.course.plain import name_of
from gpipe_edu.course.task import Blame, Chart, Finding, Success, Task, Wrong
from gpipe_edu.data import digits

from .beliefs import Belief, belief_with

TASK: Final = Task(
    key="08-batchnorm",
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

Array = np.ndarray[Any, Any]


class Given(NamedTuple):
    """What the function gets."""

    running_mean: Array
    running_var: Array
    counts: list[int]
    means: list[Array]
    variances: list[Array]
    momentum: float

    def mixed(self, old: Array, new: Any) -> Array:
        """One step of a running value."""
        return np.asarray((1 - self.momentum) * old + self.momentum * new)


def perform(deferred_update: Any, **given: Any) -> Any:
    """The new running values, and the inputs as they are afterwards."""
    return deferred_update(*given.values()), list(given.values())


def examine(examiner: Examiner, rng: Random) -> Success:
    """Even and ragged micro-batches, one of one, constant features; then a network with BatchNorm in the pipeline."""
    cases = [(12, 4, 0.1), (10, 4, 0.1), (7, 1, 0.3), (9, 4, 1.0), (11, 3, 0.0)]
    cases += [(rng.randint(2, 40), rng.randint(1, 8), rng.choice([0.05, 0.1, 0.5])) for _ in range(20)]
    for N, M, momentum in cases:
        numbers = np.random.default_rng(rng.randrange(2**32))
        x = numbers.normal(size=(N, 3)) * numbers.uniform(0.5, 3, 3) + numbers.normal(size=3) * 5
        x += np.linspace(-2, 2, N)[:, None]
        pieces = [piece for piece in split_batch(x, M) if len(piece)]
        _one(examiner, pieces, numbers.normal(size=3), numbers.uniform(0.5, 2, 3), momentum)
    return _train(examiner, rng)


def _one(examiner: Examiner, pieces: list[Array], old_mean: Array, old_var: Array, momentum: float) -> Any:
    counts = [len(piece) for piece in pieces]
    means, variances = [piece.mean(axis=0) for piece in pieces], [piece.var(axis=0) for piece in pieces]
    given = Given(old_mean, old_var, counts, means, variances, momentum)
    call = f"deferred_update(running_mean, running_var, counts={counts}, means, variances, momentum={momentum:g})"
    value, after = examiner.ask(call, **given._asdict())
    everything = np.concatenate(pieces)
    truth = given.mixed(old_mean, everything.mean(axis=0)), given.mixed(old_var, everything.var(axis=0, ddof=1))

    def wrong(slip: str, because: str, expected: Any = "", came: Any = "") -> Wrong:
        return Wrong(Finding(slip, because, call, _row(expected), _row(came)))

    mean, var = _form(value, old_mean, wrong)
    if not all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(given, after, strict=True)):
        raise wrong("input-changed", "An input was changed. Give the new running values back, and leave the old ones.")
    if not _near(mean, truth[0]):
        raise _name_mean(mean, var, truth, given, wrong)
    if not _near(var, truth[1]):
        raise _name_var(var, truth[1], given, wrong)
    return mean, var


def _form(value: Any, old: Array, wrong: Blame) -> tuple[Array, Array]:
    if value is None:
        raise wrong("no-return", SLIPS["no-return"], "", "None")
    if not isinstance(value, tuple | list) or len(value) != 2:
        because = f"The answer is a pair: new running mean, new running variance. This is a {name_of(value)}."
        raise wrong("not-a-pair", because)
    arrays = [np.asarray(part, dtype=float) if isinstance(part, list | tuple | np.ndarray) else part for part in value]
    for part in arrays:
        if not isinstance(part, np.ndarray) or part.shape != old.shape:
            shape = part.shape if isinstance(part, np.ndarray) else name_of(part)
            because = "Both running values have one number per feature: is the average over micro-batches only?"
            raise wrong("other-shape", because, f"shape {old.shape}", f"{shape}")
    return arrays[0], arrays[1]


def _name_mean(mean: Array, var: Array, truth: tuple[Array, Array], given: Given, wrong: Blame) -> Wrong:
    old, means, momentum = given.running_mean, given.means, given.momentum
    exact = (np.array(given.counts) / sum(given.counts)) @ np.array(means)
    if _near(mean, truth[1]) and _near(var, truth[0]):
        return wrong("swapped", "The mean comes first, then the variance.", truth[0], mean)
    step = old
    for one in means:
        step = given.mixed(step, one)
    beliefs = [
        Belief(
            "per-micro-batch",
            "The running values moved once per micro-batch. With M micro-batches that is M steps per mini-batch, and "
            "the last ones count most: they should move once.",
            (step,),
        ),
        Belief(
            "momentum-reversed",
            "The momentum is the wrong way round: here it is the share of the *new* value, as in PyTorch.",
            (momentum * old + (1 - momentum) * exact,),
        ),
        Belief("no-running", "The old running values don't count at all. They keep a share of 1 - momentum.", (exact,)),
        Belief(
            "mean-of-means",
            "A plain mean of the means counts a sample of a small micro-batch more than one of a large one.",
            (given.mixed(old, np.mean(means, axis=0)),),
        ),
        Belief(
            "last-only",
            "Only the last micro-batch counts. The running values belong to the whole mini-batch.",
            (given.mixed(old, means[-1]),),
        ),
        Belief(
            "adds-up",
            "The new mean was added to all of the old one: the two shares must sum to 1.",
            (old + momentum * exact,),
        ),
    ]
    belief = belief_with(beliefs, lambda guess: _near(mean, guess))
    if belief:
        return wrong(belief.slip, belief.because, truth[0], mean)
    return wrong("other-mean", "The running mean is wrong.", truth[0], mean)


def _name_var(var: Array, truth: Array, given: Given, wrong: Blame) -> Wrong:
    counts, means, variances = given.counts, given.means, given.variances
    N = sum(counts)
    shares = np.array(counts) / N
    mean = shares @ np.array(means)
    within, between = shares @ np.array(variances), shares @ (np.array(means) - mean) ** 2
    bessel = N / max(N - 1, 1)
    single = [v * n / max(n - 1, 1) for v, n in zip(variances, counts, strict=True)]
    whole = within + between
    beliefs = [
        Belief(
            "biased",
            "This divides by N. Running variances are unbiased, with N - 1, as in PyTorch: times N / (N - 1).",
            (whole,),
        ),
        Belief(
            "mean-of-variances",
            "The variances were averaged. That leaves out how far the means of the micro-batches lie apart, and so the "
            "variance comes out too small.",
            tuple(value * factor for value in (within, np.mean(variances, axis=0)) for factor in (1, bessel)),
        ),
        Belief(
            "pooled",
            "Each micro-batch was corrected by its own n / (n - 1). The correction belongs to all N samples together.",
            (shares @ np.array(single), np.mean(single, axis=0)),
        ),
        Belief(
            "between-unweighted",
            "The means' distances were averaged over micro-batches, not over samples: weight them by n / N.",
            ((within + np.var(means, axis=0)) * bessel,),
        ),
        Belief(
            "between-only",
            "This is only how far the means lie apart. The samples also vary within their micro-batch.",
            (between * bessel, between),
        ),
        Belief(
            "standard-deviation",
            "This is the standard deviation. Running values hold its square, the variance.",
            (np.sqrt(whole * bessel),),
        ),
        Belief(
            "raw-moment",
            "This is the mean of the squares. Take the square of the mean away, and it is a variance.",
            ((whole + mean**2) * bessel,),
        ),
    ]
    belief = belief_with(beliefs, lambda guess: _near(var, given.mixed(given.running_var, guess)))
    if belief:
        return wrong(belief.slip, belief.because, truth, var)
    return wrong("other-variance", "The running mean is right, the running variance is not.", truth, var)


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
        raise Wrong(Finding("other-running", because))
    words = (
        f"Then 60 handwritten digits went in 8 micro-batches through a network with BatchNorm on the pipeline engine. "
        f"Its running values and yours differ by {error:.0e}. Training itself still normalizes by micro-batch: that "
        f"nobody can defer."
    )
    return Success(words, (Chart("8 micro-batches, one update at the end", str(gpipe(3, 8))),))


def _near(ours: Array, theirs: Array) -> bool:
    return bool(np.allclose(ours, theirs, rtol=1e-7, atol=1e-9))


def _row(value: Any) -> str:
    return ", ".join(f"{number:.5f}" for number in value) if isinstance(value, np.ndarray) else str(value)
