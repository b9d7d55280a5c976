# %% [markdown]
# # Exercise 18: packs in a good order
#
# **Why care?** When sequences of different lengths are packed into micro-batches, the
# packs differ in cost. Once the packs are made, you can still choose the order in which
# they run. That is free, and can change the step's length by a fifth or more.
#
# **Difficulty** 2 of 3. **Time** 35 minutes. **You need**
# [lesson 17](../notebooks/17_micro_batches_that_are_not_alike.ipynb). **In the paper:**
# nothing; its micro-batches are equal.

# %%
import random

import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution

# %% [markdown]
# ## Eight packs on four stages
#
# Pack m takes costs[m] for its forward and twice that for its backward, on each of four
# stages. While the pack is in flight on a stage, that stage keeps costs[m] units of
# activations.

# %%
STAGES = 4
costs = [3, 8, 1, 6, 2, 7, 4, 5]


def timeline(costs, order):
    """The planned step, if the packs run in that order."""
    schedule = ge.one_f_one_b(STAGES, len(order))
    return ge.simulate(schedule, ge.Costs(micro_batches=[costs[m] for m in order]))


def step(costs, order):
    """How long that step takes."""
    return timeline(costs, order).makespan


def held(costs, order):
    """The most that stage 0 holds: up to four packs in a row are in flight there."""
    row = [costs[m] for m in order]
    return max(sum(row[at : at + STAGES]) for at in range(len(row)))


# %%
as_given = list(range(8))
shuffled = random.Random(7).sample(as_given, 8)
print("as given:", step(costs, as_given), "and at random:", step(costs, shuffled))
timeline(costs, as_given)

# %% [markdown]
# To hold less memory, one could run each long pack between short ones.

# %%
predict("ex18/long-and-short")

# %% [markdown]
# ## Your turn
#
# Find an order whose step is short and that fits into memory.
#
# <details><summary>Small print</summary>
#
# - There are 1 to 12 packs, with costs above 0 in any unit. At least one order fits.
# - The best order known fits, too. It comes from trying all orders, or from
#   long searches.
# - You have 40 seconds of CPU time for all 17 cases. Do not change `costs`.
# - You may call `ge.simulate`, but not `order_micro_batches`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex18-order-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def order(costs: list, memory: float) -> list:
    """The order in which packs run under 1F1B on four stages: a list of their numbers.

    The planned step takes at most 5 % longer than with the best order known. Any four
    packs in a row cost at most `memory` together.

    costs: each pack's forward on a stage; its backward takes twice as long
    memory: what stage 0 may hold, in the unit of costs
    """
    ### BEGIN SOLUTION
    M = len(costs)
    up = sorted(range(M), key=lambda m: costs[m])
    starts = [up, up[::-1], up[::2] + up[1::2][::-1]]

    def badness(row):
        return max(0, held(costs, row) - memory), step(costs, row)

    def improve(row):
        now = badness(row)
        while True:
            swaps = []
            for i in range(M):
                for j in range(i):
                    other = list(row)
                    other[i], other[j] = other[j], other[i]
                    swaps.append((badness(other), other))
            if not swaps or min(swaps)[0] >= now:
                return now, row
            now, row = min(swaps)

    if held(costs, starts[-1]) <= memory:
        return starts[-1]
    return min(improve(row) for row in starts)[1]
    ### END SOLUTION


# %%
found = order(costs, memory=sum(costs))
print(found, step(costs, found))
timeline(costs, found)

# %% nbgrader={"grade": true, "grade_id": "ex18-order-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex18/order", order)

# %%
# hint("ex18/order")  # take the first # away for a hint; one after each try

# %% [markdown]
# ## What memory costs
#
# Here are a few long packs among short ones. The less memory there is, the farther
# apart the long ones have to be, and the longer the step:

# %%
few_long = [1, 8, 1, 2, 1, 8, 3, 1, 3, 8, 1]
for memory in (27, 22, 20):
    found = order(few_long, memory)
    row = [few_long[m] for m in found]
    print(f"memory {memory}: a step of {step(few_long, found):g}, with {row}")
    assert held(few_long, found) <= memory

# %%
progress()

# %% [markdown]
# **Where next:** `order_micro_batches` of `gpipe_edu.timeline` does this for any
# schedule, and `ge.diagnose` says of a measured step whether its micro-batches differ,
# and what another order would give.
