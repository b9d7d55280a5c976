# %% [markdown]
# # Exercise 02: the clock, and F-then-B
#
# **Why care?** A pipeline is nothing but an answer to "who does what, and when". You
# write GPipe's answer twice, first as ticks and then as a schedule, and a real engine
# trains with your schedule.
#
# **Difficulty** 1 of 3. **Time** 30 minutes. **You need**
# [lesson 03](../notebooks/03_scheduling.ipynb) and plain Python. **In the paper:**
# section 2.2 and figure 2.

# %%
import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.timeline import merge_replays

# %% [markdown]
# ## Forward, tick by tick
#
# Let every forward take one **tick**. In a tick, each stage works on at most one
# [micro-batch](../docs/glossary.md#micro-batch), and it can take only a micro-batch
# that the previous stage has *already* finished.

# %%
predict("ex02/ticks")


# %%
def picture(ticks, name):
    spans = [
        ge.Span(k, ge.Op("F", m, k), t, t + 1)
        for t, tick in enumerate(ticks)
        for m, k in tick
    ]
    return ge.Timeline(spans, devices=1 + max(span.device for span in spans), name=name)


smallest = [[(0, 0)], [(1, 0), (0, 1)], [(1, 1)]]
ge.compare(picture(smallest, "K = 2, M = 2"))

# %% [markdown]
# That is the smallest case. It has three ticks, and each is a list of pairs `(m, k)`:
# micro-batch m is on stage k. In tick 1, both stages work.
#
# Write `clock`, for any K and M. Use as few ticks as possible. The order of the pairs
# within a tick does not matter.


# %% nbgrader={"grade": false, "grade_id": "ex02-clock-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def clock(K: int, M: int) -> list:
    """All forwards of M micro-batches through K stages, in as few ticks as possible.

    A tick is a list of the pairs (m, k) that run in it: micro-batch m on stage k, both
    counted from 0. Micro-batches enter in order, 0 first.

    Returns a list of ticks.

    Small print:
    - Within a tick, the pairs may be in any order.
    - Any other form that gives the ticks in order is as good as a list, and so is a
      dict with the ticks under their numbers, counted from 0.
    """
    ### BEGIN SOLUTION
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]
    ### END SOLUTION


# %% [markdown]
# Look at your ticks before you check them:

# %%
ge.compare(picture(clock(3, 4), "my clock"))

# %% nbgrader={"grade": true, "grade_id": "ex02-clock-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("ex02/clock", clock)

# %%
# hint("ex02/clock")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Forward and backward, as a schedule
#
# Real ops don't tick: a backward takes longer than a forward, and no two stages are
# alike. So a [schedule](../docs/glossary.md#schedule) holds no times. It says only in
# which **order** each device runs its ops; every op then starts as soon as its device
# is free and its inputs have arrived. Here is a schedule for one device and two
# micro-batches:

# %%
rows = [[ge.Op("F", 0, 0), ge.Op("F", 1, 0), ge.Op("B", 1, 0), ge.Op("B", 0, 0)]]
print(ge.Schedule(rows))

# %% [markdown]
# `ge.Op(kind, micro_batch, stage)` is one op; its kind is "F" for a forward or "B" for
# a backward. In GPipe's schedule, [F-then-B](../docs/glossary.md#f-then-b), every
# device runs all its forwards, then all its backwards.

# %%
predict("ex02/backward-order")


# %% nbgrader={"grade": false, "grade_id": "ex02-f-then-b-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def f_then_b(K: int, M: int) -> list:
    """F-then-B for K devices and M micro-batches, as a list of K rows of `ge.Op`.

    Row k is what device k runs, in order: the forwards of all micro-batches on stage k,
    then their backwards. The paper takes the backwards in reverse.

    Small print:
    - The backwards may come in any order in which no device waits longer than in the
      paper's order.
    - A `ge.Schedule`, text, or any other form that gives the rows in order is as good
      as a list.
    - Calling a recipe, such as `ge.gpipe`, is an error in this exercise.
    """
    ### BEGIN SOLUTION
    rows = []
    for k in range(K):
        forwards = [ge.Op("F", m, k) for m in range(M)]
        backwards = [ge.Op("B", m, k) for m in reversed(range(M))]
        rows.append(forwards + backwards)
    return rows
    ### END SOLUTION


# %%
mine = ge.Schedule(f_then_b(3, 4), name="my F-then-B")
print(mine)
mine

# %% nbgrader={"grade": true, "grade_id": "ex02-f-then-b-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex02/f-then-b", f_then_b)

# %%
# hint("ex02/f-then-b")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Train with it
#
# The engine takes any schedule that can run. Here it trains on one mini-batch of
# handwritten digits with your schedule:

# %%
x, y, _, _ = digits()
layers = ref.mlp([64, 32, 32, 32, 10], seed=0)
mine = ge.Schedule(f_then_b(4, 8), name="my F-then-B")
runs = [ref.train_pipeline(layers, x[:64], y[:64], mine) for _ in range(5)]
result = runs[0]
loss, exact = ref.train_sequential(layers, x[:64], y[:64])
assert abs(result.loss - loss) < 1e-12
print(f"loss {result.loss:.6f} in the pipeline, {loss:.6f} on one device")
merge_replays(run.timeline for run in runs)

# %% [markdown]
# The ops ran one after another. Each op was timed five times, and we kept the shortest
# of the five times; the chart shows the ops as four devices would run them. The
# hatching is the [bubble](../docs/glossary.md#bubble). Your rows do not contain it: it
# comes from devices waiting for each other.

# %%
progress()

# %% [markdown]
# **Where next:** back to [lesson 03](../notebooks/03_scheduling.ipynb) for what you can
# do about the bubble, or on to [lesson 04](../notebooks/04_accumulation.ipynb), where
# the gradients of micro-batches are added up.
