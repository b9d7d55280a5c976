# %% [markdown]
# # Exercise 13: a ring, and ZeRO-1
#
# **Why care?** Replicas add up their gradients after every step, and these are as large
# as the model. A ring adds them up with every link equally busy. Stop halfway, and you
# also save most of the optimizer's memory, without sending a single byte more.
#
# **Difficulty** 3 of 3. **Time** 45 minutes. **You need**
# [lesson 14](../notebooks/14_pipelines_among_other_ways.ipynb) and PyTorch, since it
# runs in real processes. **In the paper:** not there; ZeRO is Rajbhandari et al. 2019
# (arXiv 1910.02054).

# %%
from functools import partial

import numpy as np

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, counting, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.distributed import ring_links, run_processes
from gpipe_edu.view import plot_lines

# %% [markdown]
# ## No link busier than another

# %%
predict("ex13/through-one")

# %% [markdown]
# In the ring each device cuts its gradient into D pieces. Here are three devices with
# gradients a, b and c, in pieces 0 to 2. Every device sends to its right neighbour, the
# last one to device 0. Each piece to which something has just been added is **bold**:
#
# | | device 0 has | device 1 has | device 2 has |
# |---|---|---|---|
# | before | a0, a1, a2 | b0, b1, b2 | c0, c1, c2 |
# | round 1 | a0, a1, **a2+c2** | **b0+a0**, b1, b2 | c0, **c1+b1**, c2 |
# | round 2 | a0, **a1+b1+c1**, a2+c2 | b0+a0, b1, **a2+b2+c2** | **a0+b0+c0**, c1+b1, c2 |
#
# That is the [reduce-scatter](../docs/glossary.md#all-reduce): one piece is complete on
# each device. Two more rounds copy the complete pieces to all devices: that is the
# all-gather.

# %%
predict("ex13/more-devices")

# %%
Ds = list(range(1, 17))
lines = {
    "all through device 0": [2.0 * (D - 1) for D in Ds],
    "ring": [4 * (D - 1) / D for D in Ds],
}
plot_lines(
    Ds, lines, across="D, devices", up="in and out of device 0, over P (computed)"
)

# %% [markdown]
# ## Your turn
#
# You are given `send` and `receive`, which know the neighbours. `send` copies its
# argument, posts it and returns at once; `receive` waits.


# %% nbgrader={"grade": false, "grade_id": "ex13-ring-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ring_all_reduce(rank: int, D: int, pieces: list, send, receive) -> list:
    """Device `rank` of D in an all-reduce: returns the sums over all devices.

    A device sends 2 (D - 1) messages of one piece each.

    pieces: D arrays of float64, this device's gradient; piece p has the same length on
        all devices, but pieces may differ in length
    send(array): to the right neighbour, (rank + 1) % D
    receive(like): an array from the left one; `like` is any array with the shape and
        type of the array that will come
    Returns a list of D arrays.

    Small print:
    - The messages arrive in the order in which they were sent.
    - Sums stay float64.
    - `pieces` and its arrays may be overwritten.
    - D may be 1. Then there is no neighbour.
    - Nothing is sent in any other way.
    """
    ### BEGIN SOLUTION
    pieces = list(pieces)
    for t in range(D - 1):
        send(pieces[(rank - t) % D])
        p = (rank - t - 1) % D
        pieces[p] = pieces[p] + receive(pieces[p])
    for t in range(D - 1):
        send(pieces[(rank + 1 - t) % D])
        p = (rank - t) % D
        pieces[p] = receive(pieces[p])
    return pieces
    ### END SOLUTION


# %% [markdown]
# Try it on three processes, where every number of process k's gradient is k + 1: the
# sums are 6. `ring_links` makes `send` and `receive` from `torch.distributed`.


# %%
def try_ring(rank, D=3):
    with ring_links(rank, D) as (send, receive):
        return ring_all_reduce(
            rank, D, [np.full(2, rank + 1.0) for _ in range(D)], send, receive
        )


with counting("three processes", about=5):
    tried = run_processes(try_ring, 3)
for rank, sums in enumerate(tried):
    print(rank, sums)

# %% nbgrader={"grade": true, "grade_id": "ex13-ring-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex13/ring", ring_all_reduce)

# %%
# hint("ex13/ring")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## ZeRO-1: stop in the middle
#
# After the first half each device has one complete piece of the gradient.
# [ZeRO](../docs/glossary.md#zero)-1 updates the weights of a piece only on the device
# that has its complete gradient, so only that device has Adam's m and v for it. In the
# second half the new weights go round the ring, not the gradients.
#
# In the table above, as in lesson 14, piece (d + 1) % D is complete on device d. Here
# piece d should be complete on device d, so every piece starts on a different device
# from the one in the table.

# %%
predict("ex13/adam-and-the-sum")

# %% [markdown]
# <details><summary>Small print</summary>
#
# - `weights` is the list that the previous step returned.
# - `state` is the same dict for the whole training. It is passed to `adam` as it is,
#   and only `adam` writes into it.
# - `weights`, `gradients` and their arrays may be overwritten.
# - Numbers stay float64.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex13-zero1-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def zero1_step(
    rank: int, D: int, weights: list, gradients: list, state: dict, adam, send, receive
) -> list:
    """One optimizer step on device `rank` of D: returns all new weights.

    A device calls `adam` once, for piece `rank`, with the mini-batch's gradient: the
    mean over the devices. It sends D - 1 pieces of gradients, and D - 1 of weights.

    weights: D arrays, the same on all devices
    gradients: D arrays of the same lengths, for this device's samples
    state: this device's dict, empty before the first step
    adam(weight, gradient, state): the new weight; it changes only `state`
    send, receive: as in `ring_all_reduce`
    Returns a list of D arrays.
    """
    ### BEGIN SOLUTION
    weights, gradients = list(weights), list(gradients)
    for t in range(D - 1):
        send(gradients[(rank - 1 - t) % D])
        p = (rank - 2 - t) % D
        gradients[p] = gradients[p] + receive(gradients[p])
    weights[rank] = adam(weights[rank], gradients[rank] / D, state)
    for t in range(D - 1):
        send(weights[(rank - t) % D])
        p = (rank - 1 - t) % D
        weights[p] = receive(weights[p])
    return weights
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "ex13-zero1-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex13/zero1", zero1_step)

# %%
# hint("ex13/zero1")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Two replicas train
#
# Two processes have the same network, and each gets half of every mini-batch of digits.
# They take ten steps of Adam twice: first with your ring, where each process adds up
# gradients and updates everything, then with your ZeRO-1. We compare both with one
# device that gets whole mini-batches.


# %%
def flat(layers_values):
    return np.concatenate(
        [array.ravel() for values in layers_values for array in values.values()]
    )


def put_back(layers, values):
    for array in (array for layer in layers for array in layer.params.values()):
        array[...], values = (
            values[: array.size].reshape(array.shape),
            values[array.size :],
        )


def adam(weight, gradient, state):
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = 0.9 * state.get("m", 0) + 0.1 * gradient
    v = state["v"] = 0.999 * state.get("v", 0) + 0.001 * gradient**2
    return weight - 0.01 * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def train(update, rank, D):
    """The weights after ten steps, the losses, and the size of the state."""
    layers, data, state, losses = ref.mlp([64, 48, 10], seed=0), digits(), {}, []
    for step in range(10):
        x, y = ge.split_batch(
            (data.x_train[64 * step :][:64], data.y_train[64 * step :][:64]), D
        )[rank]
        loss, grads = ref.train_sequential(layers, x, y)
        weights, gradient = flat([layer.params for layer in layers]), flat(grads)
        put_back(layers, update(rank, D, weights, gradient, state))
        losses.append(loss)
    return (
        flat([layer.params for layer in layers]),
        losses,
        state["m"].size + state["v"].size,
    )


def with_ring(rank, D, weights, gradient, state):
    with ring_links(rank, D) as (send, receive):
        sums = ring_all_reduce(rank, D, np.array_split(gradient, D), send, receive)
    return adam(weights, np.concatenate(sums) / D, state)


def with_zero1(rank, D, weights, gradient, state):
    with ring_links(rank, D) as (send, receive):
        pieces = np.array_split(weights, D), np.array_split(gradient, D)
        return np.concatenate(zero1_step(rank, D, *pieces, state, adam, send, receive))


def alone(rank, D, weights, gradient, state):
    return adam(weights, gradient, state)


# %%
exact, losses, whole_state = train(alone, 0, 1)
with counting("two processes, twice", about=10):
    by_ring = run_processes(partial(train, with_ring, D=2), 2)
    by_zero1 = run_processes(partial(train, with_zero1, D=2), 2)
for name, replicas in (("ring", by_ring), ("ZeRO-1", by_zero1)):
    off = max(float(np.abs(weights - exact).max()) for weights, _, _ in replicas)
    held = [state for _, _, state in replicas]
    assert off < 1e-9
    print(
        f"{name:6} weights differ from one device's by {off:.0e}; state on each: {held}"
    )
assert sum(state for _, _, state in by_zero1) == whole_state == by_ring[0][2]
first, last = losses[0], losses[-1]
print(f"one device: loss {first:.2f}, then {last:.2f}; numbers of state {whole_state}")

# %% [markdown]
# With the state in two halves, the training is the same. PyTorch's
# `DistributedDataParallel` is your ring, started while the backward is still running.
# Its `ZeroRedundancyOptimizer` divides the state like your step, though by whole
# tensors rather than numbers. But it sends the weights after a whole all-reduce: three
# halves of an all-reduce instead of your two.

# %% [markdown]
# ## Killed, and resumed on one device
#
# In a ring no device can continue without the others. A training run on many devices
# ends when one of them fails, so it saves its state regularly. `gpipe_edu train --save`
# does this, here under torchrun with two ranks, the two stages of a pipeline. As soon
# as a step is saved, the job is told to end at once, as happens when a cluster needs
# its machines for another job.

# %%
import subprocess
import sys
import tempfile
import time
from pathlib import Path

folder = tempfile.TemporaryDirectory()
saved = Path(folder.name, "run")


def command(ranks, epochs):
    torchrun = f"-m torch.distributed.run --standalone --nproc-per-node {ranks}"
    job = f"-m gpipe_edu train --partitions {ranks} --schedule 1f1b --layers 4"
    told = [*torchrun.split(), *job.split(), "--epochs", str(epochs)]
    return [sys.executable, *told, "--save", str(saved)]


def steps():
    return sorted(int(path.name[5:]) for path in saved.glob("step-????????"))


with counting("two ranks, until a step is saved", about=15):
    job = subprocess.Popen(
        command(2, 100), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + 600
        while not steps() and job.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        job.terminate()
        job.wait(600)
    finally:
        job.kill()
print(f"exit code {job.returncode}, saved after step {steps()[-1]}")
assert job.returncode != 0

# %% [markdown]
# The files have every weight under the name that it has in the uncut network, so they
# fit any number of stages. Now only one device is left:

# %%
steps_saved = steps()[-1]
epochs = steps_saved // 12 + 2  # a pass over the digits takes 12 steps
with counting("one rank", about=15):
    resumed = subprocess.run(
        command(1, epochs), capture_output=True, text=True, timeout=600
    )
told = [
    line
    for line in resumed.stdout.splitlines()
    if line.startswith(("Digits", "Goes on", "epoch"))
]
print(*told[:2], *told[-2:], sep="\n")
assert resumed.returncode == 0
assert f"Goes on after step {steps_saved}," in told[1]
folder.cleanup()

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 15](../notebooks/15_beyond_one_machine.ipynb) runs replicas of
# a pipeline, each with its stages; `gpipe_edu train --zero` divides the state of their
# optimizers.
