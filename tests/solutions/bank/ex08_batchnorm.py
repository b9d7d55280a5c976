"""Exercise 08, deferred batch norm. Most wrong answers are one line away from a right one."""

from dataclasses import dataclass
from enum import Enum
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex08/batchnorm")
ROOM = {features: np.empty((2, features)) for features in (1, 2, 3, 6)}


@BANK.right
def in_two_parts(running_mean, running_var, counts, means, variances, momentum=0.1):
    N = sum(counts)
    mean = sum(n * m for n, m in zip(counts, means, strict=True)) / N
    within = sum(n * v for n, v in zip(counts, variances, strict=True)) / N
    between = sum(n * (m - mean) ** 2 for n, m in zip(counts, means, strict=True)) / N
    var = (within + between) * N / (N - 1)
    mean, var = (1 - momentum) * running_mean + momentum * mean, (1 - momentum) * running_var + momentum * var
    return mean, var


@BANK.wrong("far-mean")
def from_squares(running_mean, running_var, counts, means, variances, momentum=0.1):
    N = sum(counts)
    mean = sum(n * m for n, m in zip(counts, means, strict=True)) / N
    squares = sum(n * (v + m**2) for n, m, v in zip(counts, means, variances, strict=True)) / N
    var = (squares - mean**2) * N / (N - 1)
    return (1 - momentum) * running_mean + momentum * mean, (1 - momentum) * running_var + momentum * var


@BANK.right
def one_after_the_other(running_mean, running_var, counts, means, variances, momentum=0.1):
    """Chan's way: merge one micro-batch after the other into n, mean and sum of squared deviations."""
    n, mean, deviations = 0, 0.0, 0.0
    for count, m, v in zip(counts, means, variances, strict=True):
        delta = m - mean
        deviations = deviations + v * count + delta**2 * n * count / (n + count)
        mean = mean + delta * count / (n + count)
        n += count
    new = running_mean.copy(), running_var.copy()
    new[0][:] += momentum * (mean - running_mean)
    new[1][:] += momentum * (deviations / (n - 1) - running_var)
    return list(new)


@BANK.right
def both_in_one_array(running_mean, running_var, counts, means, variances, momentum=0.1):
    return np.stack(in_two_parts(running_mean, running_var, counts, means, variances, momentum))


@BANK.right
def one_then_the_other(running_mean, running_var, counts, means, variances, momentum=0.1):
    yield from in_two_parts(running_mean, running_var, counts, means, variances, momentum)


MEAN = "sum(n * m for n, m in zip(counts, means, strict=True)) / N"
WITHIN = "sum(n * v for n, v in zip(counts, variances, strict=True)) / N"
BETWEEN = "sum(n * (m - mean) ** 2 for n, m in zip(counts, means, strict=True)) / N"
VAR = "(within + between) * N / (N - 1)"
MIXED = "(1 - momentum) * running_mean + momentum * mean, (1 - momentum) * running_var + momentum * var"

BANK.changed("momentum-ignored", "zero_is_no_momentum", "N = sum", "momentum = momentum or 0.1\n    N = sum")
BANK.changed("other-default", "default_of_an_optimizer", "momentum=0.1", "momentum=0.9")
BANK.changed("floor", "never_below_a_thousandth", VAR, "np.maximum(within + between, 1e-3) * N / (N - 1)")
BANK.changed("rounded", "single_precision", "return mean, var", "return np.float32(mean), np.float32(var)")
BANK.changed("corrected-first", "corrects_the_reports", "n * v for", "n * v * n / max(1, n - 1) for")
BANK.changed("divided-by-N-M", "degrees_of_freedom_of_a_pooled_variance", "(N - 1)", "max(1, N - len(counts))")
BANK.changed(
    "corrects-the-old",
    "corrects_what_it_has_mixed",
    VAR,
    "within + between",
    "momentum * var",
    "momentum * var) * (N / (N - 1))",
    "(1 - momentum) * running_var",
    "((1 - momentum) * running_var",
)
BANK.changed(
    "momentum-reversed",
    "keeps_the_old_variance",
    "(1 - momentum) * running_var + momentum",
    "momentum * running_var + (1 - momentum)",
)
BANK.changed("no-running", "variance_of_the_batch", "(1 - momentum) * running_var + momentum * var", "var")
BANK.changed("adds-up", "adds_to_the_old_variance", "(1 - momentum) * running_var", "running_var")
BANK.changed(
    "last-only",
    "the_last_variance_wins",
    MIXED,
    MIXED.replace("* var", "* variances[-1] * counts[-1] / max(1, counts[-1] - 1)"),
)
BANK.changed(
    "momentum-ignored",
    "a_momentum_of_its_own_for_the_variance",
    "(1 - momentum) * running_var + momentum *",
    "0.9 * running_var + 0.1 *",
)
BANK.changed("around-the-old-mean", "distances_from_the_running_mean", "(m - mean) ** 2", "(m - running_mean) ** 2")
BANK.changed(
    "deviations-averaged", "averages_standard_deviations", WITHIN, f"({WITHIN.replace('* v', '* v**0.5')}) ** 2"
)
BANK.changed(
    "deviations-averaged",
    "averages_distances_from_the_mean",
    VAR,
    "np.average([(v + (m - mean) ** 2) ** 0.5 for m, v in zip(means, variances)], 0, counts) ** 2 * N / (N - 1)",
)
BANK.changed("corrected-by-M", "corrects_by_micro_batches", "* N / (N - 1)", "* len(counts) / max(1, len(counts) - 1)")
BANK.changed("mean-of-means", "plain_means", MEAN, "np.mean(means, axis=0)")
BANK.changed("mean-of-variances", "averages_both", VAR, "within")
BANK.changed("other-variance", "corrects_twice", "* N / (N - 1)", "* (N / (N - 1)) ** 2")
BANK.changed("corrects-a-part", "corrects_what_is_within", VAR, "within * N / (N - 1) + between")
BANK.changed("corrects-a-part", "corrects_what_is_between", VAR, "within + between * N / (N - 1)")
BANK.changed("biased", "divides_by_N", VAR, "within + between")
BANK.changed("momentum-reversed", "momentum_as_in_an_optimizer", "N = sum", "momentum = 1 - momentum\n    N = sum")
BANK.changed("no-running", "statistics_of_the_batch", MIXED, "mean, var")
BANK.changed("last-only", "the_last_one_wins", VAR, "(within + between) * N / (N - 1)\n    mean = means[-1]")
BANK.changed("pooled", "pooled_variance", VAR, WITHIN.replace("v for", "v * n / max(1, n - 1) for"))
BANK.changed("between-unweighted", "spread_of_means_unweighted", BETWEEN, "np.var(means, axis=0)")
BANK.changed(
    "between-unweighted", "plain_mean_of_distances", BETWEEN, "np.mean([(m - mean) ** 2 for m in means], axis=0)"
)
BANK.changed(
    "rounded", "single_precision_on_the_way", "N = sum(counts)", "means = np.float32(means)\n    N = sum(counts)"
)
BANK.changed("between-only", "variance_of_the_means", VAR, "between")
BANK.changed("raw-moment", "forgets_the_squared_mean", VAR, "(within + between + mean**2) * N / (N - 1)")
BANK.changed("standard-deviation", "takes_the_root", VAR, "np.sqrt((within + between) * N / (N - 1))")
BANK.changed("swapped", "variance_first", "return mean, var", "return var, mean")
BANK.changed("adds-up", "adds_to_the_old", MIXED, "running_mean + momentum * mean, running_var + momentum * var")
BANK.changed("input-changed", "in_place", "    mean, var = (1", "    running_mean[:], running_var[:] = mean, var = (1")
BANK.changed("input-changed", "writes_over_a_mean", "return mean, var", "means[0][:] = mean\n    return mean, var")
BANK.changed("lists", "gives_lists", "return mean, var", "return mean.tolist(), var.tolist()")
BANK.changed(
    "handed-out-again",
    "fills_the_same_arrays",
    "return mean, var",
    "ROOM[len(mean)][:] = mean, var\n    return tuple(ROOM[len(mean)])",
)
BANK.changed("other-shape", "one_number_for_all_features", "return mean, var", "return mean.mean(), var.mean()")
BANK.changed("not-a-pair", "only_the_mean", "return mean, var", "return mean")
BANK.changed("no-return", "prints_it", "return mean, var", "print(mean, var)")
BANK.changed("other-mean", "weights_by_degrees_of_freedom", MEAN, "np.average(means, 0, np.array(counts) - 1 + 1e-12)")
BANK.changed(
    "single",
    "leaves_single_samples_out",
    "N = sum(counts)",
    "counts = [n if n > 1 else 0 for n in counts]\n    N = sum(counts)",
)


@BANK.wrong("per-micro-batch")
def updates_after_each(running_mean, running_var, counts, means, variances, momentum=0.1):
    for n, m, v in zip(counts, means, variances, strict=True):
        running_mean = (1 - momentum) * running_mean + momentum * m
        running_var = (1 - momentum) * running_var + momentum * v * n / max(1, n - 1)
    return running_mean, running_var


@BANK.wrong("per-micro-batch")
def a_share_of_the_momentum_for_each(running_mean, running_var, counts, means, variances, momentum=0.1):
    N = sum(counts)
    for n, m, v in zip(counts, means, variances, strict=True):
        running_mean = running_mean + momentum * n / N * (m - running_mean)
        running_var = running_var + momentum * n / N * (v * N / (N - 1) - running_var)
    return running_mean, running_var


@BANK.wrong("per-micro-batch")
def the_right_mean_and_variances_one_by_one(running_mean, running_var, counts, means, variances, momentum=0.1):
    mean = sum(n * m for n, m in zip(counts, means, strict=True)) / sum(counts)
    for v in variances:
        running_var = (1 - momentum) * running_var + momentum * v
    return (1 - momentum) * running_mean + momentum * mean, running_var


@BANK.wrong("remembers")
def collects_in_a_default(running_mean, running_var, counts, means, variances, momentum=0.1, seen=[]):  # noqa: B006
    seen += zip(counts, means, variances, strict=True)
    return in_two_parts(running_mean, running_var, *zip(*seen, strict=True), momentum)


@BANK.wrong("many")
def room_for_64(running_mean, running_var, counts, means, variances, momentum=0.1):
    return in_two_parts(running_mean, running_var, counts[:64], means[:64], variances[:64], momentum)


@BANK.wrong("one-feature")
def numbers_for_one_feature(running_mean, running_var, counts, means, variances, momentum=0.1):
    mean, var = in_two_parts(running_mean, running_var, counts, means, variances, momentum)
    return (mean, var) if len(mean) > 1 else (mean[0], var[0])


@dataclass
class Moments:
    """Of some samples; `+` gives those of both together."""

    n: int
    mean: Any
    deviations: Any

    def __add__(self, other):
        n = self.n + other.n
        mean = (self.n * self.mean + other.n * other.mean) / n
        apart = self.n * (self.mean - mean) ** 2 + other.n * (other.mean - mean) ** 2
        return Moments(n, mean, self.deviations + other.deviations + apart)


@BANK.right
def moments_that_add_up(running_mean, running_var, counts, means, variances, momentum=0.1):
    parts = [Moments(n, m, n * v) for n, m, v in zip(counts, means, variances, strict=True)]
    whole = reduce(add, parts)
    old = 1 - momentum
    var = whole.deviations / (whole.n - 1)
    return old * running_mean + momentum * whole.mean, old * running_var + momentum * var


class Divisor(Enum):
    N = 0
    N_MINUS_1 = 1

    def average(self, values, counts):
        total = sum(n * value for n, value in zip(counts, values, strict=True))
        return total / (sum(counts) - self.value)


class Running(NamedTuple):
    mean: Any
    var: Any

    def step(self, new, momentum):
        return Running(*(old + momentum * (value - old) for old, value in zip(self, new, strict=True)))


@BANK.right
def averages_by_two_divisors(running_mean, running_var, counts, means, variances, momentum=0.1):
    mean = Divisor.N.average(means, counts)
    squares = [v + (m - mean) ** 2 for m, v in zip(means, variances, strict=True)]
    return Running(running_mean, running_var).step((mean, Divisor.N_MINUS_1.average(squares, counts)), momentum)
