# %% [markdown]
# # Exercise 17: experts on many devices
#
# **Why care?** A mixture of experts computes little and sends a lot. Which link is busy
# depends on the experts that tokens choose, and which gradients belong together depends
# on the ranks that hold a weight. A mistake about links or gradients raises no error.
#
# **Difficulty** 2 of 3. **Time** 40 minutes: 25 for the bytes, 15 for the gradients.
# **You need** [lesson 16](../notebooks/16_experts_in_a_pipeline.ipynb).
# **In the paper:** nothing; capacity and balance loss are in a later paper, GShard
# (Lepikhin et al. 2020, arXiv 2006.16668).

# %%
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.view import plot_bars

# %% [markdown]
# ## From a routing to bytes
#
# A token lives on a device, its *home*. It chooses k experts, and each of them gets a
# copy of the token: this exchange is the [dispatch](../docs/glossary.md#dispatch). Here
# four tokens on two devices choose two of four experts. Experts 0 and 1 are on device
# 0, experts 2 and 3 on device 1.

# %%
chosen = [[0, 1], [1, 2], [2, 3], [0, 3]]
home = [0, 0, 1, 1]
device_of = [0, 0, 1, 1]


def copies_from(device):
    mine = [chosen[token] for token in range(4) if home[token] == device]
    return [sum(e in experts for experts in mine) for e in range(4)]


bars = {f"from device {device}": copies_from(device) for device in (0, 1)}
plot_bars(range(4), bars, across="expert", up="copies", stacked=True)

# %% [markdown]
# Token 0 stays at home with both copies. Token 1 sends one copy to device 1, token 2
# none, and token 3 one copy to device 0. With 640 bytes for each copy, the links carry
# `{(0, 1): 640, (1, 0): 640}`.
#
# An expert has a **capacity**: the number of copies that it takes, from all devices
# together. Later copies are dropped, so no expert needs room for more. With a capacity
# of 1, expert 0 is full when token 3 comes: that copy is not sent, and only
# `{(0, 1): 640}` is left.

# %%
predict("ex17/crossing")

# %% [markdown]
# ## Your turn: the bytes
#
# <details><summary>Small print</summary>
#
# - Experts may be in any order on the devices, and so may tokens.
# - A dropped copy takes no place, and the token's other copies are sent as usual.
# - A copy for an expert on the token's own device is not sent, but takes a place.
# - Links that carry nothing may be left out, or have 0.
# - The three lists are not changed.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex17-exchange-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def exchange_bytes(
    chosen: list, home: list, device_of: list, capacity: int, token_bytes: int
) -> dict:
    """The bytes on each link in the dispatch of one layer: {(from, to): bytes}.

    Each token sends a copy to each expert that it chose, even if two of them are on the
    same device. Tokens come in order, and an expert takes at most `capacity` copies.

    chosen: for each token, its k experts
    home: for each token, its device
    device_of: for each expert, its device
    """
    ### BEGIN SOLUTION
    taken = [0] * len(device_of)
    links = {}
    for experts, sender in zip(chosen, home, strict=True):
        for e in experts:
            if taken[e] == capacity:
                continue
            taken[e] += 1
            if device_of[e] != sender:
                link = sender, device_of[e]
                links[link] = links.get(link, 0) + token_bytes
    return links
    ### END SOLUTION


# %%
print(exchange_bytes(chosen, home, device_of, 4, 640))
print(exchange_bytes(chosen, home, device_of, 1, 640))

# %% nbgrader={"grade": true, "grade_id": "ex17-exchange-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex17/exchange", exchange_bytes)

# %%
# hint("ex17/exchange")  # take the first # away for a hint; one after each try

# %% [markdown]
# ## One favourite is enough
#
# Now 4,096 tokens on eight devices choose two of 16 experts. The first time all experts
# are equally liked, the second time every token chooses expert 5. A token has 7,168
# numbers of one byte each, as in DeepSeek-V3's dispatch.

# %%
from random import Random

rng = Random(0)
where = [e // 2 for e in range(16)]
homes = [token % 8 for token in range(4096)]
even = [rng.sample(range(16), 2) for _ in homes]
liked = [[5, rng.choice([e for e in range(16) if e != 5])] for _ in homes]
for name, routing in (("even", even), ("one favourite", liked)):
    for capacity in (4096, 640):
        links = exchange_bytes(routing, homes, where, capacity, 7168)
        into = [sum(links.get((a, b), 0) for a in range(8)) / 1e6 for b in range(8)]
        print(f"{name:13} capacity {capacity:4}: {max(into):5.1f} MB into one device")

# %% [markdown]
# The exchange lasts as long as its busiest device needs. The capacity bounds this time,
# at the price of copies that are dropped; a [balance
# loss](../docs/glossary.md#balance-loss) teaches the router to spread the tokens.

# %% [markdown]
# ## Two groups for one gradient
#
# R ranks train one stage of a mixture. Each rank has a share of the batch, as large as
# the others', and its loss is the mean over its own samples. The loss to train on is
# the **mean of all R losses**.
#
# Dense weights, such as those of attention, are on every rank, and a rank's backward
# gives it the gradient of *its own* loss. Experts are divided: some ranks, a *group*,
# hold all of them together. Tokens go to the holder within their own group, so the
# gradient that a holder gets is the **sum** over the losses of the group's ranks. With
# more than one group, each expert has several holders.

# %%
predict("ex17/two-groups")

# %% [markdown]
# ## Your turn: the gradients
#
# To keep the task small, a gradient is one number here. The dicts show which ranks hold
# the same expert; ranks can be in any order.


# %% nbgrader={"grade": false, "grade_id": "ex17-average-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def average_gradients(dense: list, experts: list) -> tuple:
    """The gradients of the mean of all ranks' losses, as two lists like those given.

    dense: for each rank, the gradient of a dense weight, from its own loss
    experts: for each rank, {expert: gradient} of the experts that it holds: sums over
        the losses of its group's ranks

    Small print:
    - A rank gets a gradient for each expert that it holds, and for no other.
    - The arguments are not changed.
    """
    ### BEGIN SOLUTION
    R = len(dense)
    sums = {}
    for own in experts:
        for e, gradient in own.items():
            sums[e] = sums.get(e, 0) + gradient
    return [sum(dense) / R] * R, [{e: sums[e] / R for e in own} for own in experts]
    ### END SOLUTION


# %% [markdown]
# Here are four ranks in two groups, (0, 1) and (2, 3). Every rank should get 2.5 for
# the dense weight; experts 0 to 3 have (10 + 50) / 4 = 15, 20, 25 and 30:

# %%
average_gradients(
    [1, 2, 3, 4], [{0: 10, 1: 20}, {2: 30, 3: 40}, {0: 50, 1: 60}, {2: 70, 3: 80}]
)

# %% nbgrader={"grade": true, "grade_id": "ex17-average-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex17/average", average_gradients)

# %%
# hint("ex17/average")  # take the first # away for a hint; one after each try

# %%
progress()

# %% [markdown]
# **Where next:** `gpipe-edu plan` divides a mixture of the size that you give among
# devices; [at work](../docs/at_work.md) shows how.
