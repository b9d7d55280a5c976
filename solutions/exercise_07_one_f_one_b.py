# %% [markdown]
# # Exercise 07: 1F1B from its rule
#
# **Why care?** [1F1B](../docs/glossary.md#1f1b) takes as long as F-then-B if stages are
# even and links are free, and it holds at most K micro-batches where F-then-B holds M.
# Its rule is two sentences long, and it is easy to get it wrong by one.
#
# **Difficulty** 2 of 3. **Time** 30 minutes. **You need**
# [lesson 03](../notebooks/03_scheduling.ipynb) and
# [exercise 02](exercise_02_clock.ipynb). **In the paper:** nowhere; it is
# PipeDream-Flush, from Narayanan et al. 2020 (arXiv 2006.09503).

# %%
import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits

# %% [markdown]
# ## What F-then-B holds
#
# A micro-batch is [in flight](../docs/glossary.md#in-flight) on a device from its
# forward to its backward there, and its activations take memory. The column on the
# right of the chart counts them. The chart is planned.

# %%
ge.simulate(ge.gpipe(4, 8))

# %%
predict("ex07/what-changes")

# %% [markdown]
# ## The rule
#
# - **Warm-up.** A device runs just enough forwards to feed all devices after it: each
#   of them needs a micro-batch to work on. More forwards would only take memory.
# - **Then one forward, one backward,** in turn, until no forward is left; then the
#   remaining backwards. Micro-batches go forward in order, 0, 1, 2, ..., and come back
#   in the same order.

# %%
predict("ex07/last-warm-up")

# %% [markdown]
# This is the smallest case, two devices and three micro-batches:

# %%
smallest = ge.Schedule.parse(
    "F0 F1 B0 F2 B1 B2 \n F0 B0 F1 B1 F2 B2", name="1F1B, K = 2, M = 3"
)
ge.compare(smallest)

# %% [markdown]
# ## Your turn
#
# Write the rule as code, for every device k of K. Watch out for cases with fewer
# micro-batches than devices.


# %% nbgrader={"grade": false, "grade_id": "ex07-1f1b-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def one_f_one_b(K: int, M: int) -> list:
    """1F1B for K devices and M micro-batches, as a list of K rows of `ge.Op`.

    Row k is what device k runs, in order; `ge.Op("F", m, k)` is the forward of
    micro-batch m, counted from 0. Device k holds at most K - k micro-batches at a time,
    and the step takes no longer than F-then-B, whatever F and B are.

    Small print:
    - M may be smaller than K. Then no device holds more than M.
    - A `ge.Schedule`, or any other form that gives the rows in order, is as good as a
      list.
    - Calling a recipe, such as `ge.one_f_one_b`, is an error in this exercise.
    """
    ### BEGIN SOLUTION
    rows = []
    for k in range(K):
        warm_up = min(M, K - 1 - k)
        row = [ge.Op("F", m, k) for m in range(warm_up)]
        for m in range(M):
            if warm_up + m < M:
                row.append(ge.Op("F", warm_up + m, k))
            row.append(ge.Op("B", m, k))
        rows.append(row)
    return rows
    ### END SOLUTION


# %%
ge.Schedule(one_f_one_b(4, 8), name="my 1F1B")

# %% nbgrader={"grade": true, "grade_id": "ex07-1f1b-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex07/1f1b", one_f_one_b)

# %%
# hint("ex07/1f1b")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What it is good for
#
# The reference engine counts the bytes of activations that a device holds. We give it
# more and more micro-batches of 8 samples:

# %%
x, y, _, _ = digits()
layers = ref.mlp([64, 32, 32, 32, 10], seed=0)
for M in (4, 8, 16):
    schedules = ge.gpipe(4, M), ge.Schedule(one_f_one_b(4, M))
    f_then_b, mine = (
        max(ref.train_pipeline(layers, x[: 8 * M], y[: 8 * M], s).peak_memory)
        for s in schedules
    )
    print(
        f"M = {M:2}, bytes on the fullest device: F-then-B {f_then_b:,}, yours {mine:,}"
    )
    assert mine <= f_then_b

# %% [markdown]
# With F-then-B, the memory grows with M. With 1F1B it stops growing at M = K, so M can
# be as large as a small [bubble](../docs/glossary.md#bubble) requires. That is how 1F1B
# leads to a smaller bubble: not directly, but through the memory it frees.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 09](../notebooks/09_beyond_gpipe.ipynb) splits the backward in
# two and fills the bubble.
