# %% [markdown]
# # Exercise 06: the best cut of layers into stages
#
# **Why care?** The slowest [stage](../docs/glossary.md#stage) sets the pace for all
# stages. If you cut by the number of layers, devices are idle in every training step;
# the best cut takes milliseconds to compute, once.
#
# **Difficulty** 2 of 3. **Time** 40 minutes. **You need** [lesson
# 02](../notebooks/02_splitting.ipynb) and plain Python. **In the paper:** sections 2.1
# and 2.2. The paper's heuristic makes the *variance* of the stages' estimated costs
# small; your function makes the *largest* cost as small as it can possibly be, because
# the slowest stage sets the pace.

# %%
from itertools import accumulate, pairwise

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution

# %% [markdown]
# ## Why the largest stage matters
#
# There are eight layers, and two of them are heavy. Both cuts below make three stages,
# and both charts are [planned](../docs/glossary.md#planned): a stage's forward takes as
# long as its layers cost, and its backward twice as long.

# %%
costs = [5, 1, 1, 1, 1, 1, 1, 5]


def stage_costs(costs, counts):
    bounds = [0, *accumulate(counts)]
    return [sum(costs[a:b]) for a, b in pairwise(bounds)]


def plan(costs, counts):
    if sum(counts) != len(costs):
        raise ValueError(
            f"{counts} adds up to {sum(counts)}, but there are {len(costs)} layers"
        )
    times = stage_costs(costs, counts)
    told = ", ".join(f"{time:.5g}" for time in times)
    schedule = ge.Schedule(
        ge.gpipe(len(counts), 6).rows, name=f"{counts}: stages cost {told}"
    )
    return ge.simulate(schedule, ge.Costs(F=times, B=[2 * time for time in times]))


ge.compare(plan(costs, (3, 3, 2)), plan(costs, (2, 4, 2)))

# %% [markdown]
# Such a cut is called a [partition](../docs/glossary.md#partition). In the upper chart,
# stages have about equally many layers; in the lower chart, they have equal costs. How
# good can a partition be? Here is a larger case:

# %%
predict("ex06/best-largest")

# %% [markdown]
# ## Your turn
#
# Write `partition`. For a few layers you could try all cuts; your function has to
# handle 200 layers in 16 stages, or 100 layers in 40, within a second or two, and its
# result has to be exact. If several cuts are equally good, return any of them.


# %% nbgrader={"grade": false, "grade_id": "ex06-partition-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def partition(costs: list, K: int) -> list:
    """How many layers each of K stages gets, so that the costliest stage costs least.

    The first stage gets the first layers, and so on. For 200 layers in 16 stages, this
    takes a second or two at most.

    costs: one number per layer, at least 0, whole or not
    Returns a list of K counts, each at least 1, that sum to len(costs).

    Small print:
    - Raises ValueError unless 1 <= K <= len(costs).
    - `costs` is not changed.
    - Any other form that gives the counts in order is as good as a list.
    - Calling `ge.balance_by_cost` is an error in this exercise.
    """
    ### BEGIN SOLUTION
    L = len(costs)
    if not 1 <= K <= L:
        raise ValueError(f"{L} layers cannot fill {K} stages")
    sums = [0, *accumulate(costs)]
    best = {(1, n): (sums[n], 0) for n in range(1, L + 1)}
    for k in range(2, K + 1):
        for n in range(k, L + 1):
            best[k, n] = min(
                (max(best[k - 1, j][0], sums[n] - sums[j]), j) for j in range(k - 1, n)
            )
    counts, n = [], L
    for k in range(K, 0, -1):
        start = best[k, n][1]
        counts.append(n - start)
        n = start
    return counts[::-1]
    ### END SOLUTION


# %%
ge.compare(plan(costs, (3, 3, 2)), plan(costs, tuple(partition(costs, 3))))

# %% nbgrader={"grade": true, "grade_id": "ex06-partition-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex06/partition", partition)

# %%
# hint("ex06/partition")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## A real network
#
# The cost of a linear layer is its number of multiply-adds per sample, here in
# thousands. Between the linear layers there are ReLUs, which cost next to nothing: they
# count as 0. In this network, the width changes a lot:

# %%
layers = ref.mlp([64, 256, 256, 64, 32, 32, 32, 32, 32, 10], seed=0)
multiply_adds = [
    layer.params["weight"].size / 1000 if layer.params else 0 for layer in layers
]
print(multiply_adds)

# %%
by_count = ge.balance_uniform(len(layers), 3)
by_cost = tuple(partition(multiply_adds, 3))
slowest = [max(stage_costs(multiply_adds, counts)) for counts in (by_count, by_cost)]
assert slowest[1] < slowest[0]
ge.compare(plan(multiply_adds, by_count), plan(multiply_adds, by_cost))

# %% [markdown]
# One layer is heavier than all the others together, so no cut is even. Still, the best
# cut is faster than the cut by count, and it costs nothing.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 08](../notebooks/08_experiments.ipynb) cuts by measured times.
# [Exercise 07](exercise_07_one_f_one_b.ipynb) continues with schedules.
