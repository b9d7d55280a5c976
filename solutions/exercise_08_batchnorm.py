# %% [markdown]
# # Exercise 08: BatchNorm under micro-batches
#
# **Why care?** A network with BatchNorm can train well in a pipeline and then evaluate
# badly: its running statistics have seen micro-batches, not mini-batches. The cure is a
# small calculation that most people get wrong the first time.
#
# **Difficulty** 2 of 3. **Time** 30 minutes. **You need**
# [lesson 07](../notebooks/07_batchnorm_dropout_and_randomness.ipynb) and NumPy.
# **In the paper:** section 2.2, on batch normalization: moving averages over the
# mini-batch for evaluation.

# %%
import numpy as np

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.view import plot_lines

# %% [markdown]
# ## What a micro-batch sees
#
# The plot shows one feature of 32 digits in four micro-batches. Each dot is a sample.
# The solid line is at the mean of its [micro-batch](../docs/glossary.md#micro-batch),
# the dashed line at the mean of all samples.

# %%
x, y, _, _ = digits()
feature = x[:32, 20]
means = {"mean": [piece.mean() for piece in ge.split_batch(feature, 4) for _ in piece]}
all_of_it = {"limits": {"mean": feature.mean()}, "against": {"mean": feature}}
plot_lines(range(32), means, across="sample", up="value of the feature", **all_of_it)

# %% [markdown]
# In training, BatchNorm normalizes by the mean and variance of the micro-batch, and
# nothing can change that. For evaluation it keeps **running** values, and these can be
# exact: wait until all micro-batches are through, combine their statistics, and update
# once. That is [deferred batch norm](../docs/glossary.md#deferred-batch-norm).

# %%
predict("ex08/two-parts")

# %% [markdown]
# ## Your turn
#
# Each micro-batch reports its number of samples, its mean, and its variance (dividing
# by n). Update the running values as if BatchNorm had seen the mini-batch in one piece.


# %% nbgrader={"grade": false, "grade_id": "ex08-batchnorm-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def deferred_update(
    running_mean,
    running_var,
    counts: list,
    means: list,
    variances: list,
    momentum: float = 0.1,
):
    """The new (running_mean, running_var) after one mini-batch of micro-batches.

    As in PyTorch, momentum is the share of the new value, and the running variance is
    unbiased: over all N samples, at least 2, it divides by N - 1.

    running_mean, running_var: arrays of shape (features,)
    counts: samples of each micro-batch, at least 1
    means, variances: an array of shape (features,) for each micro-batch; variances
        divide by n
    Returns two arrays of shape (features,).

    Small print:
    - All numbers are float64, and results may be off only by rounding at that
      precision.
    - The default of `momentum` is 0.1.
    - No argument is changed, and nothing is kept for the next call.
    """
    ### BEGIN SOLUTION
    n = np.array(counts, dtype=float)[:, None]
    m, v = np.array(means), np.array(variances)
    N = n.sum()
    mean = (n * m).sum(axis=0) / N
    variance = (n * (v + (m - mean) ** 2)).sum(axis=0) / (N - 1)
    old = 1 - momentum
    return old * running_mean + momentum * mean, old * running_var + momentum * variance
    ### END SOLUTION


# %% [markdown]
# Try it with the feature above; with momentum 1 the old values don't count:

# %%
pieces = [piece[:, None] for piece in ge.split_batch(feature, 4)]
deferred_update(
    np.zeros(1),
    np.ones(1),
    [len(piece) for piece in pieces],
    [piece.mean(axis=0) for piece in pieces],
    [piece.var(axis=0) for piece in pieces],
    momentum=1.0,
)

# %%
print(f"all at once: {feature.mean():.6f} {feature.var(ddof=1):.6f}")

# %% nbgrader={"grade": true, "grade_id": "ex08-batchnorm-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex08/batchnorm", deferred_update)

# %%
# hint("ex08/batchnorm")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What it is worth
#
# Take a hundred mini-batches of digits, in micro-batches of 4 samples. We follow the
# running variance of one hidden feature twice: updated after every micro-batch, as by
# an ordinary BatchNorm, and updated by your function. Both values start at the variance
# of all digits, as if training had been running for a long time.

# %%
layer, rng = ref.Linear(64, 8, seed=0), np.random.default_rng(0)
whole, _ = layer.forward(x)
naive = mine = whole.mean(axis=0), whole.var(axis=0, ddof=1)
truth, lines = mine[1][0], []
for _ in range(100):
    hidden, _ = layer.forward(x[rng.integers(0, len(x), size=32)])
    pieces = ge.split_batch(hidden, 8)
    reports = (
        [len(p) for p in pieces],
        [p.mean(axis=0) for p in pieces],
        [p.var(axis=0) for p in pieces],
    )
    mine = deferred_update(*mine, *reports)
    for count, mean, variance in zip(*reports, strict=True):
        naive = (
            0.9 * naive[0] + 0.1 * mean,
            0.9 * naive[1] + 0.1 * variance * count / (count - 1),
        )
    lines.append((naive[1][0], mine[1][0]))

off = [
    np.sqrt(np.mean([(line[way] / truth - 1) ** 2 for line in lines])) for way in (0, 1)
]
assert off[1] < off[0]
names = [
    f"after every micro-batch, off by {off[0]:.0%}",
    f"your deferred update, off by {off[1]:.0%}",
]
curves = dict(zip(names, zip(*lines, strict=True), strict=True))
across, up = "mini-batch (dashed: all digits)", "running variance, measured"
plot_lines(range(100), curves, across=across, up=up, limits={names[1]: truth})

# %% [markdown]
# Both lines stay around the dashed one, but the line of the ordinary BatchNorm jumps
# about: with eight updates per mini-batch instead of one it forgets eight times as
# fast, and the variance that evaluation uses depends on the last few micro-batches.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 07](../notebooks/07_batchnorm_dropout_and_randomness.ipynb)
# says what goes wrong when you recompute, and which norm has none of these
# problems.
