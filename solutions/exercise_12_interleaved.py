# %% [markdown]
# # Exercise 12: interleaved 1F1B for any V
#
# **Why care?** To pass through all K devices, a micro-batch needs K stage times. Give
# each device V small stages instead of one large stage, and the pipeline fills V times
# as fast. This shrinks the [bubble](../docs/glossary.md#bubble) where you can't have
# more micro-batches; Megatron-LM gained 10 % and more in throughput.
#
# **Difficulty** 3 of 3. **Time** 35 minutes. **You need** [lesson
# 09](../notebooks/09_beyond_gpipe.ipynb) and [exercise
# 07](exercise_07_one_f_one_b.ipynb). **In the paper:** not there; see Narayanan et al.
# 2021 (arXiv 2104.04473), section 2.2.

# %%
import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.view import plot_lines

# %% [markdown]
# ## What we want to shorten
#
# Here is 1F1B on four devices, planned with F = 1 and B = 2. Each device is idle for 9
# units, the time of three forwards and three backwards of all its layers. It waits at
# the ends of its lane or in the middle.

# %%
ge.simulate(ge.one_f_one_b(4, 8))

# %%
predict("ex12/whose-stages")

# %% [markdown]
# The smallest case has two devices, two micro-batches and V = 2, so four stages. `F0@2`
# is the forward of micro-batch 0 on stage 2. Each op takes half as long, because each
# stage is half as large.

# %%
smallest = ge.Schedule.parse(
    "F0@0 F1@0 F0@2 F1@2 B0@2 B1@2 B0@0 B1@0 \nF0@1 F1@1 F0@3 B0@3 F1@3 B1@3 B0@1 B1@1",
    name="K = 2, M = 2, V = 2",
)
ge.simulate(smallest, ge.Costs(F=0.5, B=1))

# %% [markdown]
# ## The rule
#
# - **In rounds.** A micro-batch passes through devices 0 to K - 1, then through all of
#   them again, V times in all: stage s is on device s mod K.
# - **In groups.** K micro-batches pass through one stage of a device, then the same K
#   through the device's next stage. When they have passed through all V stages, the
#   next K micro-batches follow. So a micro-batch comes back to a device just when the
#   device has finished with the others of its group. Backwards go in the same groups,
#   but begin with a device's last stage.
# - **1F1B.** First come some forwards, as many as it takes until the first gradient can
#   be back. Then forwards and backwards alternate; last come the backwards that are
#   left. The first forwards may be just enough for the way to the model's end, or
#   enough for the way there and back. The check accepts either number; after the task
#   you will see what the larger number gains.

# %% [markdown]
# ## Your turn
#
# Write interleaved 1F1B for any K and V, and for any M that is a multiple of K.
#
# <details><summary>Small print</summary>
#
# - A `ge.Schedule`, or any other form that gives the rows in order, is as good as a
#   list.
# - Calling a recipe, such as `ge.interleaved`, is an error in this exercise.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex12-interleaved-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def interleaved(K: int, M: int, V: int) -> list:
    """Interleaved 1F1B for K devices with V stages each, as K rows of `ge.Op`.

    Row k is what device k runs, in order; `ge.Op("F", m, s)` is the forward of
    micro-batch m on stage s, from 0 to K V - 1. Device k has the stages k, K + k,
    2 K + k, ...

    M: micro-batches, a multiple of K
    Memory: between F and B, device k holds at most 2 (K - 1 - k) + (V - 1) K + 1
        activations of a stage.
    Time: the step takes (M V + K - 1) (F + B), with the F and B of one stage.
    """
    ### BEGIN SOLUTION
    groups = [range(first, first + K) for first in range(0, M, K)]
    rows = []
    for k in range(K):
        forwards = [
            ge.Op("F", m, v * K + k)
            for group in groups
            for v in range(V)
            for m in group
        ]
        backwards = [
            ge.Op("B", m, v * K + k)
            for group in groups
            for v in reversed(range(V))
            for m in group
        ]
        ahead = min(V * M, 2 * (K - 1 - k) + (V - 1) * K)
        row = forwards[:ahead]
        for place, backward in enumerate(backwards):
            row += [*forwards[ahead + place : ahead + place + 1], backward]
        rows.append(row)
    return rows
    ### END SOLUTION


# %%
mine = ge.simulate(
    ge.Schedule(interleaved(4, 8, 2), name="my interleaved"), ge.Costs(F=0.5, B=1)
)
ge.gantt(ge.simulate(ge.one_f_one_b(4, 8)), mine)

# %% nbgrader={"grade": true, "grade_id": "ex12-interleaved-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex12/interleaved", interleaved)

# %%
# hint("ex12/interleaved")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Idle time, counted and by formula

# %%
predict("ex12/half-the-share")

# %% [markdown]
# A device works for M (F + B), no matter how its share is cut. The rest of the step is
# idle time. By the formula, idle time is (K - 1)(F + B) / V, where F and B are the
# times of all layers of a device.

# %%
counted, by_formula, Vs = [], [], range(1, 9)
for V in Vs:
    timeline = ge.simulate(
        ge.Schedule(interleaved(4, 8, V)), ge.Costs(F=1 / V, B=2 / V)
    )
    counted.append(timeline.idle(0))
    by_formula.append((4 - 1) * (1 + 2) / V)
    assert abs(counted[-1] - by_formula[-1]) < 1e-9
    idle = f"idle {counted[-1]:.2f} of {timeline.makespan:.2f}"
    print(f"V = {V}: {idle}, bubble {timeline.bubble_fraction:.1%}")

# %% [markdown]
# ## What it costs
#
# With V stages per device, a micro-batch crosses K V - 1 boundaries instead of K - 1.
# If a message keeps its link busy for some time, here for a tenth or a quarter of a
# device's forward, a larger V soon stops paying off:

# %%
lines = {}
for link in (0, 0.1, 0.25):
    plans = [
        ge.simulate(
            ge.Schedule(interleaved(4, 8, V)), ge.Costs(F=1 / V, B=2 / V, link=link)
        )
        for V in Vs
    ]
    lines[f"link {link:g}"] = [plan.makespan for plan in plans]
plot_lines(Vs, lines, across="V, stages on a device", up="planned makespan (F = 1)")

# %% [markdown]
# The other price is memory. With a warm-up of 2 (K - 1 - k) + (V - 1) K forwards, as in
# Megatron-LM, device 0 holds V K + K - 1 activations of stages that are 1/V as large.
# Counted in activations of a whole device's layers, that is K + (K - 1) / V, while 1F1B
# holds K: 5.5 instead of 4 for K = 4 and V = 2. Would a warm-up for the way there alone
# be enough, with K - 1 - k in place of 2 (K - 1 - k)? Here are both warm-ups, each made
# from the forwards and the backwards of your rows:


# %%
def there(K, k):
    return K - 1 - k


def there_and_back(K, k):
    return 2 * (K - 1 - k)


def merged(warm_up, K=4, M=8, V=2):
    rows = []
    for k, row in enumerate(ge.Schedule(interleaved(K, M, V)).rows):
        forwards, backwards = ([op for op in row if op.kind == kind] for kind in "FB")
        ahead = min(M * V, warm_up(K, k) + (V - 1) * K)
        later = [
            [*forwards[ahead + i : ahead + i + 1], op] for i, op in enumerate(backwards)
        ]
        rows.append([*forwards[:ahead], *(op for ops in later for op in ops)])
    return ge.Schedule(rows)


links = [step / 20 for step in range(11)]
lines = {
    f"{name}, holds {max(ge.simulate(schedule).peak_in_flight) / 2:g} shares": [
        ge.simulate(schedule, ge.Costs(F=0.5, B=1, link=link)).makespan
        for link in links
    ]
    for name, schedule in {
        "K - 1 - k": merged(there),
        "2 (K - 1 - k)": merged(there_and_back),
    }.items()
}
short, long = lines.values()
assert short[0] == long[0] == 28.5
assert all(a > b for a, b in zip(short[1:], long[1:], strict=True))
plot_lines(
    links,
    lines,
    across="time for which a message keeps its link busy (F = 1)",
    up="planned makespan (F = 1)",
)

# %% [markdown]
# With free links, the short warm-up is as fast as the long one, and holds no more than
# 1F1B. The long warm-up pays off where messages take time: a device has work in reserve
# while a gradient travels. So both are right, and the links decide between them.
#
# Here are the bytes, counted by the engine while it trains 16 layers on four devices:

# %%
x, y, _, _ = digits()
layers = [layer for layer in ref.mlp([*[64] * 16, 10], seed=0) if layer.params]
exact = ref.train_sequential(layers, x[:128], y[:128])[1]
schedules = {
    "1F1B": ge.one_f_one_b(4, 8),
    "short": merged(there),
    "long": merged(there_and_back),
}
held = {}
for name, schedule in schedules.items():
    run = ref.train_pipeline(layers, x[:128], y[:128], schedule)
    assert ref.gradient_difference(run.grads, exact) < 1e-12
    held[name] = run.peak_memory[0]
    share = f"{held[name] / held['1F1B']:.3f} of 1F1B's"
    print(f"{name:6} device 0 holds {held[name]:,} bytes, {share}; gradients are exact")
assert [count / held["1F1B"] for count in held.values()] == [1, 1, 5.5 / 4]

# %% [markdown]
# ## When M is not a multiple of K
#
# Suppose there are six micro-batches on four devices. Write two full groups, and leave
# out the ops of micro-batches 6 and 7, which do not exist. This schedule can run. But
# its second group is only half full, so a micro-batch is not yet back when its device
# is done with the others of its group, and the formula does not hold.

# %%
whole = ge.Schedule(interleaved(4, 8, 2))
six = ge.simulate(whole.first(6), ge.Costs(F=0.5, B=1)).with_name(
    "M = 6 of two groups of 4"
)
assert six.makespan > (6 * 2 + 4 - 1) * 1.5
of_whole_groups = (4 - 1) * 3 / 2
print(f"idle on device 0: {six.idle(0):g}, and {of_whole_groups:g} for whole groups")
six

# %%
progress()

# %% [markdown]
# **Where next:** [exercise 11](exercise_11_backward_in_two.ipynb) fills the rest of the
# bubble with weight gradients. [Lesson
# 14](../notebooks/14_pipelines_among_other_ways.ipynb) shows a case in which M is
# small: many replicas share the batch.
