# %% [markdown]
# # Exercise 16: a profile with one thing wrong
#
# **Why care?** A training run on many ranks is half as fast as planned. Every rank
# waits, and nothing says for which other rank. If you can read a trace, you find the
# cause in minutes instead of days.
#
# **Difficulty** 2 of 3. **Time** 40 minutes. **You need**
# [lesson 15](../notebooks/15_beyond_one_machine.ipynb) and
# [exercise 07](exercise_07_one_f_one_b.ipynb); at the end, PyTorch. **In the paper:**
# section 3.1 of the NeurIPS version says where the time of a step goes.

# %%
from statistics import median

import gpipe_edu as ge
from gpipe_edu.course import (
    check,
    counting,
    hint,
    on_your_machine,
    predict,
    progress,
    solution,
)
from gpipe_edu.timeline import step_with_fault

# %% [markdown]
# ## Four things that go wrong
#
# | name | what happens | what to change |
# |---|---|---|
# | **slow rank** | the ops of one rank take longer than its layers should: a hot or shared processor | the machine; until then, give it fewer layers |
# | **uneven cut** | layers cost the same everywhere, and one rank has many more of them | the cut |
# | **slow link** | messages between one rank and the next take far longer than others: a cable, a wrong network | the link, or the order of ranks on machines |
# | **no overlap** | a rank begins no op while a message that it sends is on its way | send without waiting (`isend`) |
#
# Each of these faults delays all ranks, since every micro-batch passes through all
# ranks. Here is a simulated step with a slow rank. As in real profiles, no two ops take
# quite the same time, and one op somewhere takes three times as long as it should.

# %%
predict("ex16/who-idles")

# %%
schedule = ge.one_f_one_b(4, 8)
healthy = step_with_fault(schedule, [4, 4, 4, 4], seed=1)
slow = step_with_fault(schedule, [4, 4, 4, 4], slow_rank=2, seed=1)
ge.compare(healthy.with_name("nothing wrong"), slow.with_name("rank 2 is slow"))

# %% [markdown]
# A timeline has its ops and its messages, in order of time:

# %%
print(slow.row(2)[0])
print(slow.messages[0])
print("idle:", [round(slow.idle(k)) for k in range(4)])

# %% [markdown]
# ## Your turn
#
# Find the fault. It is exactly one of the four.
#
# <details><summary>Small print</summary>
#
# - There are 3 ranks or more and 4 micro-batches or more. Times are in any unit.
# - There may be no messages at all. Then only the ops can tell.
# - A slow rank takes 1.6 times as long for a layer as other ranks do, apart from random
#   variation.
# - In an uneven cut one rank has at least two layers more than each of the others.
#   So 5, 3, 4, 4 is not an uneven cut: 5 is only one more than 4.
# - The messages of a slow link, in both directions, take 8 times as long as those of
#   other links.
# - Without overlap, a rank begins no op while a message that it sends is on its way,
#   from the message's `start` until it is `there`.
# - Every rank without this fault begins an op during at least one of its messages,
#   possibly at the very moment of the message's `start`.
# - One layer more or less on one rank is not a fault. Nor is a single op that takes
#   long.
# - Your function must not change `layers`.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex16-profile-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def diagnose(timeline, layers: list) -> tuple:
    """What is wrong in a profile, and where, such as ("slow rank", 2).

    The names are those of the table; the number is the rank's, or the slow link's. Link
    k is the one between ranks k and k + 1.

    timeline: F-then-B or 1F1B, one stage per rank
    timeline.spans: (device, op, start, end); `timeline.row(k)` has rank k's, in order
    timeline.messages: (op, source, target, start, end, there); a message is on its link
        from `start` to `end`, and has arrived at `there`
    layers: the number of layers of each rank, 3 or more
    """
    ### BEGIN SOLUTION
    K = len(layers)
    forwards = [
        [span.end - span.start for span in timeline.row(k) if span.op.kind == "F"]
        for k in range(K)
    ]
    per_layer = [
        median(times) / count for times, count in zip(forwards, layers, strict=True)
    ]
    slowest = per_layer.index(max(per_layer))
    if per_layer[slowest] > 1.3 * median(per_layer):
        return "slow rank", slowest
    links = [[] for _ in range(K - 1)]
    works_meanwhile = [False] * K
    for message in timeline.messages:
        links[min(message.source, message.target)].append(message.there - message.start)
        for span in timeline.row(message.source):
            if span.start < message.there and span.end > message.start:
                works_meanwhile[message.source] = True
    if timeline.messages:
        times = [median(link) for link in links]
        if max(times) > 3 * min(times):
            return "slow link", times.index(max(times))
        if not all(works_meanwhile):
            return "no overlap", works_meanwhile.index(False)
    return "uneven cut", layers.index(max(layers))
    ### END SOLUTION


# %% [markdown]
# Try it on the slow rank above, and on one example of each of the other faults:

# %%
print(diagnose(slow, [4, 4, 4, 4]))
print(diagnose(step_with_fault(schedule, [4, 4, 4, 7]), [4, 4, 4, 7]))
print(diagnose(step_with_fault(schedule, [4, 4, 4, 4], slow_link=1), [4, 4, 4, 4]))
print(
    diagnose(step_with_fault(schedule, [4, 4, 4, 4], waits_for_sends=1), [4, 4, 4, 4])
)

# %% nbgrader={"grade": true, "grade_id": "ex16-profile-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex16/profile", diagnose)

# %%
# hint("ex16/profile")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Find it, change it, measure again
#
# Now comes a pipeline that really runs: three ranks, each a separate process, and a
# measured trace of all of them. So that any laptop can play three devices, layers wait
# instead of computing: 4 ms forward, 8 ms back. The last layer, the head, waits as long
# as four other layers together.

# %%
import time
from functools import partial

import torch
from torch import nn

from gpipe_edu.distributed import run_processes


class Waiting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, ms):
        ctx.ms = ms
        time.sleep(ms / 1000)
        return x * weight

    @staticmethod
    def backward(ctx, dy):
        time.sleep(2 * ctx.ms / 1000)
        return dy, dy.sum(), None


class WaitingLayer(nn.Module):
    def __init__(self, ms):
        super().__init__()
        self.weight, self.ms = nn.Parameter(torch.ones(())), ms

    def forward(self, x):
        return Waiting.apply(x, self.weight, self.ms)


costs = [4] * 11 + [16]  # ms of each layer's forward


def train(balance, rank):
    from gpipe_edu.cluster import Pipeline

    torch.set_num_threads(1)
    net = nn.Sequential(*map(WaitingLayer, costs))
    x, y = torch.ones(16, 4), torch.zeros(16, 4)
    pipeline = Pipeline(net, ge.one_f_one_b(3, 8), nn.MSELoss(), x, balance=balance)
    for _ in range(2):  # the first step of a process is slow
        pipeline.step(x, y)
    return pipeline.timeline()


def measure(balance):
    with counting("three processes", about=10):
        return run_processes(partial(train, balance), 3, seconds=600)[0]


# %%
by_count = [4, 4, 4]
found = measure(by_count)
work = [sum(costs[4 * k : 4 * k + 4]) // 4 for k in range(3)]  # in layers of 4 ms
print("layers of 4 ms on each rank:", work, " diagnosis:", diagnose(found, work))

# %% [markdown]
# `ge.diagnose`, whose result `gpipe-edu open` prints for any trace of a pipeline, has
# to name the same fault as your function. It also says what would help, and by how
# much:

# %%
theirs = ge.diagnose(found, layers=work)
print(theirs)
on_your_machine(
    "Your diagnosis is that of `ge.diagnose`.",
    diagnose(found, work) == (theirs.cause, theirs.slowest_stage),
)

# %% [markdown]
# Each rank has four layers, and yet the head makes the last rank the slowest: time
# counts, not the number of layers. So cut by cost, and measure again:

# %%
by_cost = list(ge.balance_by_cost(costs, 3))
better = measure(by_cost)
on_your_machine(
    "The step is at least a tenth shorter.", better.makespan < 0.9 * found.makespan
)
for cut, timeline in ((by_count, found), (by_cost, better)):
    print(f"{cut}: {timeline.makespan * 1000:.0f} ms")
ge.compare(
    found.with_name(f"cut by count {by_count}"),
    better.with_name(f"cut by cost {by_cost}"),
)

# %%
progress()

# %% [markdown]
# **Where next:** [see your bubble](../docs/measured_run.md) explains how to take a
# profile of a pipeline of your own; `gpipe-edu open` and `ge.diagnose` say what that
# profile shows.
