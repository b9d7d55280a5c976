"""Exercise 08, deferred batch norm."""

import numpy as np

from tests.solutions.bank import Bank

BANK = Bank("ex08/batchnorm")


def exact(counts, means, variances):
    N = sum(counts)
    mean = sum(n * m for n, m in zip(counts, means, strict=True)) / N
    squares = sum(n * (v + m**2) for n, m, v in zip(counts, means, variances, strict=True)) / N
    return N, mean, squares - mean**2


def mixed(old_mean, old_var, mean, var, momentum):
    return (1 - momentum) * old_mean + momentum * mean, (1 - momentum) * old_var + momentum * var


@BANK.right
def from_squares(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, var * N / (N - 1), momentum)


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
    return np.stack(from_squares(running_mean, running_var, counts, means, variances, momentum))


@BANK.right
def one_then_the_other(running_mean, running_var, counts, means, variances, momentum=0.1):
    yield from from_squares(running_mean, running_var, counts, means, variances, momentum)


@BANK.wrong("momentum-ignored")
def zero_is_no_momentum(running_mean, running_var, counts, means, variances, momentum=0.1):
    return from_squares(running_mean, running_var, counts, means, variances, momentum or 0.1)


@BANK.wrong("other-default")
def default_of_an_optimizer(running_mean, running_var, counts, means, variances, momentum=0.9):
    return from_squares(running_mean, running_var, counts, means, variances, momentum)


@BANK.wrong("floor")
def never_below_a_thousandth(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, np.maximum(var, 1e-3) * N / (N - 1), momentum)


@BANK.wrong("rounded")
def single_precision(running_mean, running_var, counts, means, variances, momentum=0.1):
    found = from_squares(running_mean, running_var, counts, means, variances, momentum)
    return [part.astype(np.float32) for part in found]


@BANK.wrong("corrected-first")
def corrects_the_reports(running_mean, running_var, counts, means, variances, momentum=0.1):
    unbiased = [v * n / max(1, n - 1) for n, v in zip(counts, variances, strict=True)]
    return from_squares(running_mean, running_var, counts, means, unbiased, momentum)


@BANK.wrong("divided-by-N-M")
def degrees_of_freedom_of_a_pooled_variance(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, var * N / max(1, N - len(counts)), momentum)


@BANK.wrong("mean-of-means")
def plain_means(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, _, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, np.mean(means, axis=0), var * N / (N - 1), momentum)


@BANK.wrong("mean-of-variances")
def averages_both(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, _ = exact(counts, means, variances)
    var = sum(n * v for n, v in zip(counts, variances, strict=True)) / N
    return mixed(running_mean, running_var, mean, var, momentum)


@BANK.wrong("biased")
def divides_by_N(running_mean, running_var, counts, means, variances, momentum=0.1):
    _, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, var, momentum)


@BANK.wrong("per-micro-batch")
def updates_after_each(running_mean, running_var, counts, means, variances, momentum=0.1):
    for n, m, v in zip(counts, means, variances, strict=True):
        running_mean, running_var = mixed(running_mean, running_var, m, v * n / max(1, n - 1), momentum)
    return running_mean, running_var


@BANK.wrong("momentum-reversed")
def momentum_as_in_an_optimizer(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, var * N / (N - 1), 1 - momentum)


@BANK.wrong("no-running")
def statistics_of_the_batch(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mean, var * N / (N - 1)


@BANK.wrong("last-only")
def the_last_one_wins(running_mean, running_var, counts, means, variances, momentum=0.1):
    return mixed(running_mean, running_var, means[-1], variances[-1], momentum)


@BANK.wrong("pooled")
def pooled_variance(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, _ = exact(counts, means, variances)
    var = sum(n * v * n / max(1, n - 1) for n, v in zip(counts, variances, strict=True)) / N
    return mixed(running_mean, running_var, mean, var, momentum)


@BANK.wrong("between-unweighted")
def spread_of_means_unweighted(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, _ = exact(counts, means, variances)
    within = sum(n * v for n, v in zip(counts, variances, strict=True)) / N
    return mixed(running_mean, running_var, mean, (within + np.var(means, axis=0)) * N / (N - 1), momentum)


@BANK.wrong("between-only")
def variance_of_the_means(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, _ = exact(counts, means, variances)
    var = sum(n * (m - mean) ** 2 for n, m in zip(counts, means, strict=True)) / N
    return mixed(running_mean, running_var, mean, var, momentum)


@BANK.wrong("raw-moment")
def forgets_the_squared_mean(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, (var + mean**2) * N / (N - 1), momentum)


@BANK.wrong("standard-deviation")
def takes_the_root(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return mixed(running_mean, running_var, mean, np.sqrt(var * N / (N - 1)), momentum)


@BANK.wrong("swapped")
def variance_first(running_mean, running_var, counts, means, variances, momentum=0.1):
    return from_squares(running_mean, running_var, counts, means, variances, momentum)[::-1]


@BANK.wrong("adds-up")
def adds_to_the_old(running_mean, running_var, counts, means, variances, momentum=0.1):
    N, mean, var = exact(counts, means, variances)
    return running_mean + momentum * mean, running_var + momentum * var * N / (N - 1)


@BANK.wrong("input-changed")
def in_place(running_mean, running_var, counts, means, variances, momentum=0.1):
    mean, var = from_squares(running_mean, running_var, counts, means, variances, momentum)
    running_mean[:], running_var[:] = mean, var
    return running_mean, running_var


@BANK.wrong("other-shape")
def one_number_for_all_features(running_mean, running_var, counts, means, variances, momentum=0.1):
    mean, var = from_squares(running_mean, running_var, counts, means, variances, momentum)
    return mean.mean(), var.mean()


@BANK.wrong("not-a-pair")
def only_the_mean(running_mean, running_var, counts, means, variances, momentum=0.1):
    return from_squares(running_mean, running_var, counts, means, variances, momentum)[0]
