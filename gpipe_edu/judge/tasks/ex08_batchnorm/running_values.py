"""What each misconception makes of running values: the mean, and the variance, that it would have given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpipe_edu.judge.case import Belief, Sign, Signs, try_beliefs
from gpipe_edu.judge.guest.networks import Array


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


def about_mean(update: Update) -> Signs:
    """Of a running mean that is wrong."""
    asked, mean, truth = update.asked, update.mean, update.true_mean
    if _near(mean, truth):
        return
    yield Sign("swapped", _near(mean, update.true_var) and _near(update.var, truth))
    yield Sign("rounded", _near(mean, truth, 1e-4))
    old, means, rate = asked.running_mean, asked.means, asked.rate
    exact = (np.array(asked.counts) / sum(asked.counts)) @ np.array(means)
    one_by_one = old
    for one in means:
        one_by_one = asked.mix(one_by_one, one)
    beliefs = [
        Belief("momentum-ignored", (0.9 * old + 0.1 * exact,)),
        Belief("per-micro-batch", (one_by_one,)),
        Belief("momentum-reversed", (rate * old + (1 - rate) * exact,)),
        Belief("no-running", (exact,)),
        Belief("mean-of-means", (asked.mix(old, np.mean(means, axis=0)),)),
        Belief("last-only", (asked.mix(old, means[-1]),)),
        Belief("adds-up", (old + rate * exact,)),
    ]
    yield from try_beliefs(beliefs, lambda guess: _near(mean, guess))
    yield Sign("other-mean")


def about_variance(update: Update) -> Signs:
    """Of a running variance that is wrong, where the running mean is right."""
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
    yield from try_beliefs(beliefs, lambda guess: _near(var, asked.mix(asked.running_var, guess)))
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


def write_in_digits(expected: Array, came: Array) -> tuple[str, str]:
    """Both as text, with as many digits as it takes to see where they differ."""
    for digits in (6, 9, 12, 16):
        rows = [", ".join(f"{number:.{digits}g}" for number in row) for row in (expected, came)]
        if rows[0] != rows[1]:
            break
    return rows[0], rows[1]
