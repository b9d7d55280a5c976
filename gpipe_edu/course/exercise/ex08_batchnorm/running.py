"""Naming what is wrong with running values: what each shortcut would have given, with the numbers to see it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.course.task import Blame, Wrong

from .beliefs import Belief, belief_with

Array = np.ndarray[Any, Any]

_ROUNDED: Final = (
    "Nearly right, but digits are missing, as in float32, or in a small difference of large numbers. The inputs are "
    "float64: stay with it."
)


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

    def written(self, momentum: bool) -> str:
        """The call, so that it can be tried if it is small; without the momentum if that is left out."""
        last = [f"momentum={self.momentum:g}"] if momentum else []
        if len(self.running_mean) > 2:
            names = ["running_mean", "running_var", f"counts={self.counts}", "means", "variances"]
            return f"deferred_update({', '.join([*names, *last])})"
        arrays = {name: np.array(getattr(self, name)).tolist() for name in self._fields[:5]}
        lines = [
            f"{name}={value}" if name == "counts" else f"{name}=np.array({value})" for name, value in arrays.items()
        ]
        return "\n".join(["deferred_update(", *(f"    {line}," for line in [*lines, *last]), ")"])


def name_mean(mean: Array, var: Array, truth: tuple[Array, Array], given: Given, wrong: Blame) -> Wrong:
    """Why the running mean is wrong."""
    old, means, momentum = given.running_mean, given.means, given.momentum
    exact = (np.array(given.counts) / sum(given.counts)) @ np.array(means)
    if near(mean, truth[1]) and near(var, truth[0]):
        return wrong("swapped", "The mean comes first, then the variance.", truth[0], mean)
    step = old
    for one in means:
        step = given.mixed(step, one)
    if near(mean, truth[0], 1e-4):
        return wrong("rounded", _ROUNDED, truth[0], mean)
    beliefs = [
        Belief(
            "momentum-ignored",
            "This is what a momentum of 0.1 gives, and the call has another one. Mind that 0 is a momentum as well: "
            "`momentum or 0.1` is 0.1 then.",
            (0.9 * old + 0.1 * exact,),
        ),
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
    belief = belief_with(beliefs, lambda guess: near(mean, guess))
    if belief:
        return wrong(belief.slip, belief.because, truth[0], mean)
    return wrong("other-mean", "The running mean is wrong.", truth[0], mean)


def name_variance(var: Array, truth: Array, given: Given, wrong: Blame) -> Wrong:
    """Why the running variance is wrong, where the running mean is right."""
    counts, means, variances = given.counts, given.means, given.variances
    N = sum(counts)
    shares = np.array(counts) / N
    mean = shares @ np.array(means)
    within, between = shares @ np.array(variances), shares @ (np.array(means) - mean) ** 2
    bessel = N / max(N - 1, 1)
    single = [v * n / max(n - 1, 1) for v, n in zip(variances, counts, strict=True)]
    whole, many = within + between, max(N - len(counts), 1)
    if _is_lifted(var - truth, whole * bessel):
        because = (
            "A small variance comes out too large: it was lifted to a floor, or something was added. That belongs to "
            "where BatchNorm divides by it; the running variance is as small as it is."
        )
        return wrong("floor", because, truth, var)
    if near(var, truth, 1e-4):
        return wrong("rounded", _ROUNDED, truth, var)
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
            "corrected-first",
            "Each variance was multiplied by its n / (n - 1) before they were put together. They go in as reported; "
            "the correction comes once, at the end, for all N samples.",
            tuple((shares @ np.array(single) + between) * factor for factor in (1, bessel)),
        ),
        Belief(
            "divided-by-N-M",
            "This divides by N - M, which is right for a spread around M means. Here it is around one mean, that of "
            "all samples: N - 1.",
            (whole * N / many, within * N / many),
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
    belief = belief_with(beliefs, lambda guess: near(var, given.mixed(given.running_var, guess)))
    if belief:
        return wrong(belief.slip, belief.because, truth, var)
    return wrong("other-variance", "The running mean is right, the running variance is not.", truth, var)


def _is_lifted(more: Array, variance: Array) -> bool:
    """Whether there is something more for small variances only, or a little of the same for all."""
    off = np.abs(more) > 1e-9
    if not off.any() or not (more[off] > 0).all():
        return False
    return bool((variance[off] < 1e-3).all() or (np.ptp(more) < 1e-9 and more.max() <= 0.01))


def near(ours: Array, theirs: Array, off: float = 1e-9) -> bool:
    """Whether they agree, up to such a share."""
    return bool(np.allclose(ours, theirs, rtol=off, atol=1e-11))


def in_digits(expected: Any, came: Any) -> tuple[str, str]:
    """Both as text, with as many digits as it takes to see where they differ."""
    if not (isinstance(expected, np.ndarray) and isinstance(came, np.ndarray)):
        return str(expected), str(came)
    for digits in (6, 9, 12, 16):
        rows = [", ".join(f"{number:.{digits}g}" for number in row) for row in (expected, came)]
        if rows[0] != rows[1]:
            break
    return rows[0], rows[1]
