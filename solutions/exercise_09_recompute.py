# %% [markdown]
# # Exercise 09: recompute early, and under a memory cap
#
# **Why care?** [Re-materialization](../docs/glossary.md#re-materialization) buys memory
# with time. Part of that time is free, if you know where devices wait; and often only
# one device needs recompute at all.
#
# **Difficulty** 3 of 3. **Time** 40 minutes. **You need**
# [lesson 05](../notebooks/05_rematerialization.ipynb) and
# [exercise 07](exercise_07_one_f_one_b.ipynb). **In the paper:** section 2.3, where
# recompute is scheduled early, before the gradient arrives.

# %%
import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.timeline import peak_memory

# %% [markdown]
# ## Late recompute
#
# Of a micro-batch that is recomputed, a stage keeps only the input; the **interior**,
# the [saved activations](../docs/glossary.md#saved-activations) of the stage's layers,
# is thrown away after the forward. When the gradient has arrived, `C` recomputes the
# interior and runs the backward, as one op. That is [late
# recompute](../docs/glossary.md#late-recompute). All charts here are planned, with F =
# R = 1 and B = 2.

# %%
late = ge.simulate(ge.gpipe(4, 4, "late"))
print("interiors held at the peak:", peak_memory(late))
late

# %% [markdown]
# Look at devices 0 to 2 in the middle: they are idle, and then they recompute. An `R`
# is a recompute as a separate op. It needs only the stage input, not the gradient. Here
# are one stage and one micro-batch:

# %%
print(ge.Schedule([[ge.Op("F", 0, 0), ge.Op("R", 0, 0), ge.Op("B", 0, 0)]]))

# %%
predict("ex09/where-it-hides")

# %% [markdown]
# ## Your turn: early
#
# Write F-then-B with [early recompute](../docs/glossary.md#early-recompute). Every
# micro-batch is recomputed on every stage, and a device never holds more than one
# interior.


# %% nbgrader={"grade": false, "grade_id": "ex09-early-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def early(K: int, M: int) -> list:
    """F-then-B with early recompute: K devices, M micro-batches, K rows of `ge.Op`.

    Row k is what device k runs, in order. There is an R for every micro-batch on every
    stage, and a device recomputes while it waits for a gradient.

    Memory: a device holds at most one interior at a time.
    Time: the step takes M (F + R + B) + (K - 1) (F + B).

    Small print:
    - On the last device micro-batch M - 1 goes back at once, so it may do without an R.
      Then the step is one R shorter.
    - You may also return a `ge.Schedule`, or any other form that gives the rows in
      order.
    - Calling a recipe is an error in this exercise: start from your own F-then-B.
    """
    ### BEGIN SOLUTION
    rows = []
    for k in range(K):
        row = [ge.Op("F", m, k) for m in range(M)]
        for m in reversed(range(M)):
            row += [ge.Op("R", m, k), ge.Op("B", m, k)]
        rows.append(row)
    return rows
    ### END SOLUTION


# %%
mine = ge.simulate(ge.Schedule(early(4, 4), name="my early recompute"))
print("interiors held at the peak:", peak_memory(mine))
ge.compare(late, mine)

# %% nbgrader={"grade": true, "grade_id": "ex09-early-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex09/early", early)

# %%
# hint("ex09/early")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Your turn: under a cap
#
# There are three devices and six micro-batches, and each device has room for **two**
# interiors. A forward needs that room while it runs, even if its interior is thrown
# away afterwards. Stage inputs are small and don't count. The column on the right of
# the charts also counts micro-batches of which only the input is kept, so look at the
# interiors given in the charts' titles. Again F = R = 1 and B = 2. Here are three
# schedules, none of which is good enough:

# %%
rows = str(ge.one_f_one_b(3, 6)).splitlines()  # a line for each device
waits = [rows[1], *rows[1:]]
front_recomputes = ["F0 F1 F2 R0 B0 F3 R1 B1 F4 R2 B2 F5 R3 B3 R4 B4 R5 B5", *rows[1:]]


def plan(rows, name):
    timeline = ge.simulate(
        ge.Schedule.parse(rows) if isinstance(rows, str) else ge.Schedule(rows)
    )
    return timeline.with_name(
        f"{name}: interiors {[int(peak) for peak in peak_memory(timeline)]}"
    )


everything_again = str(ge.gpipe(3, 6, "early"))
ge.compare(
    plan("\n".join(waits), "wait for room"),
    plan(everything_again, "all recompute"),
    plan("\n".join(front_recomputes), "device 0 recomputes"),
)

# %% [markdown]
# The third schedule takes 27. **Beat it:** reach a makespan of 26 or less, with no more
# than two interiors on any device. Write the schedule by hand, one line per device, as
# above. [The puzzle](../notebooks/schedule_puzzles.ipynb) is a good place to play.


# %% nbgrader={"grade": false, "grade_id": "ex09-cap-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def under_cap() -> str:
    """A schedule of F, R, C and B for 3 devices and 6 micro-batches.

    No device holds more than two interiors at a time. With F = R = 1 and B = 2 the
    makespan is at most 26.

    Returns text with a line per device, or rows of `ge.Op`.

    Small print:
    - The text may have blank lines, and comments after a #, as in `ge.Schedule.parse`.
    """
    ### BEGIN SOLUTION
    return """
    F0 F1 F2 F3 R1 B0 R2 B1 F4 B2 F5 R3 B3 R5 B4 B5
    F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5
    F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5
    """
    ### END SOLUTION


# %%
plan(under_cap(), "mine")

# %% nbgrader={"grade": true, "grade_id": "ex09-cap-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex09/cap", under_cap)

# %%
# hint("ex09/cap")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# A makespan of 24 is possible, the same as that of 1F1B without any cap: under 1F1B
# device 0 idles for 6 of 24 units, and the recomputes that it cannot avoid fit into
# that idle time.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 09](../notebooks/09_beyond_gpipe.ipynb), where the backward
# itself is split to fill the waits.
