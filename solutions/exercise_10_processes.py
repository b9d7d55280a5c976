# %% [markdown]
# # Exercise 10: two processes that send activations and gradients
#
# **Why care?** On a real cluster, stages are processes that share nothing. At its core,
# a pipeline library is a loop of receives, sends, forwards and backwards. In this
# exercise you will write one, make it hang, and find out why.
#
# **Difficulty** 3 of 3. **Time** 45 minutes. **You need**
# [lesson 06](../notebooks/06_pytorch_pipeline.ipynb): the cut graph, and
# [1F1B](../docs/glossary.md#1f1b) from lesson 03. **In the paper:** section 2.2,
# communication between neighbouring accelerators at partition boundaries.

# %%
import time

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.distributed import ProcessError, run_processes, train_processes
from gpipe_edu.timeline import calibrate

# %% [markdown]
# ## Who says what to whom
#
# Each row below will be a separate process. Between a box and the box in the other row
# that needs its result, a message must travel: after F of process 0 an
# [activation](../docs/glossary.md#activation), after B of process 1 a gradient.

# %%
ge.simulate(ge.one_f_one_b(2, 4), ge.Costs(send=0.3))

# %% [markdown]
# `run_processes(f, 2)` starts two processes; one calls `f(0)`, the other calls `f(1)`.
# They belong to one group, so they may use `torch.distributed`, here with **gloo**,
# which carries messages between CPU processes. A receiver provides its own buffer, with
# the right shape and type:


# %%
def hello(k):
    if k == 0:
        dist.send(torch.tensor([1.0, 2.0, 3.0]), 1)  # to process 1
        return None
    buffer = torch.empty(3)
    dist.recv(buffer, 0)  # from process 0
    return buffer


run_processes(hello, 2)

# %% [markdown]
# Now both processes send something:

# %%
predict("ex10/first-words")


# %%
def polite(k):
    theirs = torch.empty(3)
    dist.send(torch.ones(3), 1 - k)
    dist.recv(theirs, 1 - k)
    return theirs


try:
    run_processes(polite, 2)
except ProcessError as error:
    print(error)

# %% [markdown]
# That is a **deadlock**. A real job would sit there until somebody looked;
# `run_processes` sees which process waits for which and stops them.
#
# There is a send that does not wait: `isend` returns a **handle** at once. The message
# is on its way only as long as you hold the handle; `handle.wait()` returns when the
# message has been taken.


# %%
def hasty(k):
    theirs = torch.empty(3)
    work = dist.isend(torch.ones(3), 1 - k)
    dist.recv(theirs, 1 - k)
    work.wait()
    return theirs


run_processes(hasty, 2)

# %% [markdown]
# ## Your turn
#
# Write what one process does in one training step. Its
# [stage](../docs/glossary.md#stage) is there already, with its weights; the process
# walks along its row of the [schedule](../docs/glossary.md#schedule). You know both ops
# from lesson 06, where a queue did the job of the messages.

# %%
predict("ex10/what-arrives")

# %% [markdown]
# <details><summary>Small print</summary>
#
# - K is at least 2, and the schedule is F-then-B or 1F1B.
# - The mini-batch has N samples; micro-batch m has n_m of them.
# - All numbers are torch.float64. The last process returns the loss as a number, or as
#   a tensor with one number; what the other processes return does not matter.
# - Each F runs the stage once, and nothing is recomputed.
# - The stage stays in its mode, training or evaluation.
# - The weights are not changed: the update is the optimizer's job.
# - Process k talks only to k - 1 and k + 1: no other messages, no barrier.
# - `run_stage` is called again for the next step, with the same arguments, and keeps
#   nothing between steps.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex10-processes-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_stage(k: int, K: int, stage, ops: list, shapes: list, pieces, loss_fn):
    """One step of process k of K: it runs its row of ops, in order.

    Activations go to process k + 1, gradients to k - 1, and it waits for every handle.
    Afterwards the weights of `stage` have their gradients.

    stage: an nn.Module, its gradients empty
    ops: Op(kind, micro_batch, stage), kind "F" or "B"
    shapes: of the input, (n_m, features) for each micro-batch m
    pieces: micro-batches of x on process 0, of targets on the last, else None
    loss_fn: (result, targets) -> their mean loss
    Returns the mini-batch's mean loss on the last process.
    """
    ### BEGIN SOLUTION
    N = sum(n for n, *_ in shapes)
    held, handles, total = {}, [], 0.0
    for kind, m, _ in ops:
        if kind == "F":
            if k == 0:
                x = pieces[m]
            else:
                x = torch.empty(shapes[m], dtype=torch.float64)
                dist.recv(x, k - 1)
                x.requires_grad_()
            out = stage(x)
            if k == K - 1:
                out = loss_fn(out, pieces[m]) * (shapes[m][0] / N)
                total += out.item()
            else:
                handles.append(dist.isend(out.detach(), k + 1))
            held[m] = x, out
        else:
            x, out = held.pop(m)
            gradient = None
            if k < K - 1:
                gradient = torch.empty_like(out)
                dist.recv(gradient, k + 1)
            out.backward(gradient)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total
    ### END SOLUTION


# %% [markdown]
# Try it on ten digits in two processes. `train_processes` cuts the network, starts a
# process for each stage, and brings back their results. Start with F-then-B. Does 1F1B
# run, too?

# %%
data = digits()
x, y = torch.tensor(data.x_train).double(), torch.tensor(data.y_train)
torch.manual_seed(0)
small = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)).double()
tried = train_processes(
    run_stage, small, ge.gpipe(2, 3), x[:10], y[:10], nn.CrossEntropyLoss()
)
for source, target, shape in tried.sent:
    print(f"process {source} sent {shape} to process {target}")

# %% [markdown]
# ## Check
#
# The check starts up to three processes, which takes a few seconds.

# %% nbgrader={"grade": true, "grade_id": "ex10-processes-check", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("ex10/processes", run_stage)

# %%
# hint("ex10/processes")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Planned and measured
#
# What does a message cost? We send one back and forth 200 times, as large as an
# activation in the run below:


# %%
def ping_pong(k):
    ball, times = torch.ones(50, 512, dtype=torch.float64), []
    for _ in range(200):
        start = time.perf_counter()
        if k == 0:
            dist.send(ball, 1)
            dist.recv(ball, 1)
        else:
            dist.recv(ball, 0)
            dist.send(ball, 0)
        times.append((time.perf_counter() - start) / 2)
    return min(times)


send = run_processes(ping_pong, 2)[0]
size = 50 * 512 * 8 // 1024
print(f"one message of {size} KiB: {send * 1e3:.2f} ms (measured, the quickest of 200)")

# %% [markdown]
# Now your two processes do real work: 400 digits in 8
# [micro-batches](../docs/glossary.md#micro-batch), under 1F1B. Each process notes when
# its ops begin and end, by the clock that both share; we keep the quickest of ten
# steps. The plan, in the upper chart, uses the mean op times of that step and the
# message time measured above.

# %%
torch.manual_seed(0)
blocks = [
    nn.Sequential(nn.Linear(64 if i == 0 else 512, 512), nn.Tanh()) for i in range(5)
]
net, loss_fn, schedule = (
    nn.Sequential(*blocks, nn.Linear(512, 10)).double(),
    nn.CrossEntropyLoss(),
    ge.one_f_one_b(2, 8),
)
result = train_processes(run_stage, net, schedule, x[:400], y[:400], loss_fn, steps=10)

loss_fn(net(x[:400]), y[:400]).backward()
pairs = [
    (ours, weight.grad)
    for ours, weight in zip(result.grads, net.parameters(), strict=True)
]
off = max(
    ((ours - exact).abs().max() / exact.abs().max()).item() for ours, exact in pairs
)
assert off < 1e-10
print(f"gradients of two processes and of one device differ by {off:.0e}")
costs = calibrate(result.timeline)
plan = ge.simulate(schedule, ge.Costs(F=costs.F, B=costs.B, send=send, unit="s"))
ge.compare(
    plan.with_name("your schedule"), result.timeline.with_name("your two processes")
)

# %% [markdown]
# On each device the ops run in the planned order. The gaps are different: op times
# vary, and a process that waits for a message has to be woken up when it comes, which
# takes longer the more programs share your cores. For a pipeline across machines you
# would look at the same two charts, and ask the same question about every gap: for
# which process did this one wait?

# %% [markdown]
# Between machines a message takes longer, but the loop stays the same.
# `torch.distributed.pipelining` is such a loop, with the schedule as data:
# `PipelineStage` is your `stage` with its sends and receives, and `Schedule1F1B` is
# your row of ops. You now know what to look for in it: it sets up its receive buffers
# once, from one shape, so micro-batches must all be of the same size; and if one
# process fails, the others wait until the group's time limit is up.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 15](../notebooks/15_beyond_one_machine.ipynb) runs any
# schedule with a process for each device, on one machine or on many, and [lesson
# 14](../notebooks/14_pipelines_among_other_ways.ipynb) gives the price of the other
# ways to divide training. Or give your function three processes: just write
# `ge.one_f_one_b(3, 8)` above.
