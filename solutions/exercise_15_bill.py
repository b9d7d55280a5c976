# %% [markdown]
# # Exercise 15: the bill
#
# **Why care?** "Does it fit?" is the first question about every training run. You can
# answer it in bytes, device by device, before you rent anything. Here you write that
# bill, and then use it to choose a plan.
#
# **Difficulty** 2 of 3. **Time** 45 minutes: 27 for the bill, 18 for the choice.
# **You need** [lesson 08](../notebooks/08_experiments.ipynb), and
# [lesson 14](../notebooks/14_pipelines_among_other_ways.ipynb) for replicas, tensor
# groups and ZeRO. **In the paper:** section 2.3 has the bill for a GPipe device, with
# recompute by stage; the 34 bytes used below are counted in Korthikanti et al. 2022
# (arXiv 2205.05198).

# %%
import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.view import plot_bars

# %% [markdown]
# ## What is on the bill
#
# A Transformer of L blocks of width h, with a vocabulary of v words, reads samples of s
# tokens. A *plan* trains it on T·D·K devices: D [replicas](../docs/glossary.md#replica)
# of a pipeline of K devices, each of which is really a tensor group of T devices. A
# device has V stages, and runs M micro-batches under [1F1B](../docs/glossary.md#1f1b),
# interleaved if V is more than 1.

# %%
llama_8b = {"blocks": 32, "width": 4096, "vocabulary": 128_000, "tokens": 8192}
plan = {"T": 1, "D": 1, "K": 4, "V": 1, "M": 8, "samples": 1, "recompute": "none"}
ge.simulate(ge.one_f_one_b(plan["K"], plan["M"]))

# %% [markdown]
# The column on the right says how many micro-batches a device holds at its peak. First
# make a guess; the rules follow.

# %%
predict("ex15/fullest")

# %% [markdown]
# ## Your turn: the bill
#
# **State.** A block has GPT's shape, with 12 h² weights (norms and biases left out;
# Llama's blocks have 13 h² in the 8B model). The embedding is a table of v·h weights on
# device 0. The head is another table of the same size, on device K − 1; with K = 1 both
# are on the same device. Blocks are divided evenly. A tensor group divides all weights
# by T. A weight takes 2 bytes; its gradient, a sum over micro-batches, takes 4; and
# Adam's state takes 12, which [ZeRO](../docs/glossary.md#zero)-1 divides by D.
#
# **Activations.** With n = samples · s tokens in a micro-batch, a block keeps 34 n h /
# T bytes of each micro-batch from its F to its B. (Attention scores are not kept, and
# the group divides the sequence, too.) With recompute `"full"` it keeps only its input,
# 2 n h / T; while one block is recomputed, 34 n h / T are added, once per device.
#
# How many micro-batches are in flight? Device k warms up with this many forwards, and
# then runs one more before its first backward:
#
#     V = 1:  K − 1 − k                 V > 1:  2 (K − 1 − k) + (V − 1) K
#
# Together with this extra forward, at most V M are in flight, since a device runs no
# more than V M forwards in a step. Each of them is one micro-batch in *one* of the
# device's stages.
#
# **Logits.** For each token of one micro-batch, the last device holds a number of 4
# bytes for every word of the vocabulary; a tensor group divides these bytes by T.


# %% nbgrader={"grade": false, "grade_id": "ex15-bill-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bill(model: dict, plan: dict) -> list:
    """The bill of each of the K devices of a pipeline, in bytes, by the rules above.

    model: blocks, width, vocabulary, tokens
    plan: T, D, K, V, M, samples (of a micro-batch), recompute ("none" or "full"); K V
        divides the blocks
    Returns a pair for each device: bytes of state, and bytes of activations (with
        logits) at its peak.

    Small print:
    - Numbers need not be whole.
    - Neither dict is changed.
    """
    ### BEGIN SOLUTION
    L, h, v = model["blocks"], model["width"], model["vocabulary"]
    T, D, K, V, M = (plan[name] for name in "TDKVM")
    n = plan["samples"] * model["tokens"]
    rows = []
    for k in range(K):
        weights = (12 * h * h * L / K + v * h * ((k == 0) + (k == K - 1))) / T
        ahead = K - 1 - k if V == 1 else 2 * (K - 1 - k) + (V - 1) * K
        in_flight = min(V * M, ahead + 1)
        if plan["recompute"] == "full":
            kept = in_flight * L / (K * V) * 2 + 34
        else:
            kept = in_flight * L / (K * V) * 34
        logits = 4 * n * v / T if k == K - 1 else 0
        rows.append((weights * (2 + 4 + 12 / D), kept * n * h / T + logits))
    return rows
    ### END SOLUTION


# %%
for k, (state, activations) in enumerate(bill(llama_8b, plan)):
    state, activations = state / 1e9, activations / 1e9
    print(
        f"device {k}: {state:5.1f} GB of state and {activations:5.1f} GB of activations"
    )

# %% nbgrader={"grade": true, "grade_id": "ex15-bill-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex15/bill", bill)

# %%
# hint("ex15/bill")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Four ways to the same end
#
# Your bill gives four answers to one question. The model stays the same, and one thing
# in the plan changes at a time:


# %%
def gigabytes(model, plan):
    return [sum(row) / 1e9 for row in bill(model, plan)]


variants = {
    "as above": plan,
    "full recompute": plan | {"recompute": "full"},
    "tensor groups of 2": plan | {"T": 2},
    "8 replicas, ZeRO-1": plan | {"D": 8},
}
bars = {name: gigabytes(llama_8b, variant) for name, variant in variants.items()}
assert max(bars["full recompute"]) < max(bars["as above"])
plot_bars(range(4), bars, across="device", up="GB, counted")

# %% [markdown]
# Recompute reduces activations and leaves the state as it is; replicas with ZeRO-1
# reduce the optimizer's state and leave activations as they are; a tensor group divides
# both, and pays with messages in every layer.
#
# ## By hand first: your own job
#
# Type your name, and you get your own numbers. Work out a plan with paper and pencil,
# and fill it in. It should fit, leave no device unused, and have a bubble (K − 1) /
# (V·M + K − 1) of at most a fifth. The plan's cell says only whether the plan fits.
# Check the rest yourself: T·D·K = devices, K·V divides the blocks, D·M divides the
# samples, and the bubble.

# %%
from random import Random

me = "nobody yet"
mine = Random(me)
model = {
    "blocks": mine.choice((32, 40, 48)),
    "width": 1024 * mine.randint(4, 8),
    "vocabulary": 128_000,
    "tokens": 8192,
}
devices, node, memory, batch = mine.choice((32, 64)), 8, 72e9, 512
print(model)
print(f"{devices} devices of {memory / 1e9:g} GB in nodes of {node}")
print(f"{batch} samples a step")

# %%
# change all of it
by_hand = {"T": 1, "D": devices, "K": 1, "V": 1, "M": 1, "recompute": "none"}
samples = batch // (by_hand["D"] * by_hand["M"])
worst = max(gigabytes(model, by_hand | {"samples": samples}))
print(f"the fullest device needs {worst:,.1f} of {memory / 1e9:g} GB")

# %% [markdown]
# ## Your turn: the choice
#
# Now let the bill choose a plan for any job.

# %%
predict("ex15/first-cut")

# %% [markdown]
# <details><summary>Small print</summary>
#
# - Any plan that meets all conditions is right. The last node may be partly filled.
# - Raises ValueError if no plan meets all conditions.
# - Recompute is "full" only if the same plan with "none" does not fit.
# - The model is not changed.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex15-choice-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose(model: dict, devices: int, node: int, memory: float, batch: int) -> dict:
    """A plan that fits the machine: a dict with T, D, K, V, M and recompute.

    No device needs more than `memory`, and the bubble,
    (K - 1) / (V M + K - 1), is at most 1/5.

    devices, node: how many in all, and per node
    memory: of each device, in bytes
    batch: samples per step
    T: divides `node`
    D: T D K = devices
    K, V: K V divides the blocks; V is 1 if K is 1
    M: D M divides `batch`; if V > 1, K divides M
    """
    ### BEGIN SOLUTION

    def divisors(number):
        return [one for one in range(1, number + 1) if number % one == 0]

    for T in divisors(node):
        for K in divisors(devices // T) if devices % T == 0 else []:
            D = devices // (T * K)
            if model["blocks"] % K or batch % D:
                continue
            for V in divisors(model["blocks"] // K) if K > 1 else [1]:
                for M in divisors(batch // D):
                    if (V > 1 and M % K) or 5 * (K - 1) > V * M + K - 1:
                        continue
                    for recompute in ("none", "full"):
                        plan = dict(zip("TDKVM", (T, D, K, V, M), strict=True))
                        plan["recompute"] = recompute
                        rows = bill(model, plan | {"samples": batch // (D * M)})
                        if max(map(sum, rows)) <= memory:
                            return plan
    raise ValueError(f"no plan fits {devices} devices of {memory / 1e9:g} GB")
    ### END SOLUTION


# %%
found = choose(model, devices, node, memory, batch)
print(found)
found["samples"] = batch // (found["D"] * found["M"])
plot_bars(
    range(found["K"]),
    {"state and activations": gigabytes(model, found)},
    across="device",
    up="GB, counted",
)

# %% nbgrader={"grade": true, "grade_id": "ex15-choice-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex15/choice", choose)

# %%
# hint("ex15/choice")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## How it runs
#
# This is one replica of your plan, with a row per device, planned with B = 2 F and free
# links. First comes the bubble with all M micro-batches, then a picture with only 2 K
# of them.

# %%
found = choose(model, devices, node, memory, batch)
K, V, M = (found[name] for name in "KVM")


def in_order(M):
    return ge.interleaved(K, M, V) if V > 1 else ge.one_f_one_b(K, M)


bubble = ge.simulate(in_order(M)).bubble_fraction
assert bubble <= 0.2 + 1e-9
print(f"{bubble:.1%} of the devices' time is idle")
ge.simulate(in_order(2 * K))

# %%
progress()

# %% [markdown]
# **Where next:** `python -m gpipe_edu plan` works out which of the plans that fit is
# the *fastest*, from what links and matrix products cost. [Lesson
# 08](../notebooks/08_experiments.ipynb) measures such plans, and the page on [published
# runs](../docs/published_runs.md) compares plans with 160 training runs.
