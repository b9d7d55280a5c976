"""What each misconception makes of running values: the mean, and the variance, that it would have given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpipe_edu.exercises.case import Belief, Sign, Signs, explaining

Array: TypeAlias = NDArray[Any]


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


@dataclass(frozen=True)
class Update:
    """One call: what was given, the running values that came, and the true ones."""

    given: Given
    mean: Array
    var: Array
    true_mean: Array
    true_var: Array


def about_mean(update: Update) -> Signs:
    """Of a running mean that is wrong."""
    given, mean, truth = update.given, update.mean, update.true_mean
    if _near(mean, truth):
        return
    yield Sign("swapped", _near(mean, update.true_var) and _near(update.var, truth))
    yield Sign("rounded", _near(mean, truth, 1e-4))
    old, means, momentum = given.running_mean, given.means, given.momentum
    exact = (np.array(given.counts) / sum(given.counts)) @ np.array(means)
    one_by_one = old
    for one in means:
        one_by_one = given.mixed(one_by_one, one)
    beliefs = [
        Belief("momentum-ignored", (0.9 * old + 0.1 * exact,)),
        Belief("per-micro-batch", (one_by_one,)),
        Belief("momentum-reversed", (momentum * old + (1 - momentum) * exact,)),
        Belief("no-running", (exact,)),
        Belief("mean-of-means", (given.mixed(old, np.mean(means, axis=0)),)),
        Belief("last-only", (given.mixed(old, means[-1]),)),
        Belief("adds-up", (old + momentum * exact,)),
    ]
    yield from explaining(beliefs, lambda guess: _near(mean, guess))
    yield Sign("other-mean")


def about_variance(update: Update) -> Signs:
    """Of a running variance that is wrong, where the running mean is right."""
    given, var, truth = update.given, update.var, update.true_var
    if _near(var, truth):
        return
    counts, means, variances = given.counts, given.means, given.variances
    N = sum(counts)
    shares = np.array(counts) / N
    mean = shares @ np.array(means)
    within, between = shares @ np.array(variances), shares @ (np.array(means) - mean) ** 2
    whole, bessel, by_N_M = within + between, N / max(N - 1, 1), N / max(N - len(counts), 1)
    single = [v * n / max(n - 1, 1) for v, n in zip(variances, counts, strict=True)]
    yield Sign("floor", _is_lifted(var - truth, whole * bessel))
    yield Sign("rounded", _near(var, truth, 1e-4))
    averages = within, np.mean(variances, axis=0)
    corrected = shares @ np.array(single)
    beliefs = [
        Belief("biased", (whole,)),
        Belief("mean-of-variances", tuple(value * factor for value in averages for factor in (1, bessel))),
        Belief("pooled", (corrected, np.mean(single, axis=0))),
        Belief("corrected-first", tuple((corrected + between) * factor for factor in (1, bessel))),
        Belief("divided-by-N-M", (whole * by_N_M, within * by_N_M)),
        Belief("between-unweighted", ((within + np.var(means, axis=0)) * bessel,)),
        Belief("between-only", (between * bessel, between)),
        Belief("standard-deviation", (np.sqrt(whole * bessel),)),
        Belief("raw-moment", ((whole + mean**2) * bessel,)),
    ]
    yield from explaining(beliefs, lambda guess: _near(var, given.mixed(given.running_var, guess)))
    yield Sign("other-variance")


def _is_lifted(more: Array, variance: Array) -> bool:
    """Whether there is something more for small variances only, or a little of the same for all."""
    off = np.abs(more) > 1e-9
    if not off.any() or not (more[off] > 0).all():
        return False
    return bool((variance[off] < 1e-3).all() or (np.ptp(more) < 1e-9 and more.max() <= 0.01))


def _near(ours: Array, theirs: Array, off: float = 1e-9) -> bool:
    """Whether they agree, up to such a share."""
    return bool(np.allclose(ours, theirs, rtol=off, atol=1e-11))


def in_digits(expected: Array, came: Array) -> tuple[str, str]:
    """Both as text, with as many digits as it takes to see where they differ."""
    for digits in (6, 9, 12, 16):
        rows = [", ".join(f"{number:.{digits}g}" for number in row) for row in (expected, came)]
        if rows[0] != rows[1]:
            break
    return rows[0], rows[1]
