# %% [markdown]
# # Exercise 13: a ring, and ZeRO-1
#
# **Why care?** Replicas add up their gradients after every step, and a gradient is as large as the model. The ring does it with
# no link busier than another. Cut in its middle, it saves most of the optimizer's memory as well, and sends not a byte more.
#
# **Difficulty** 3 of 3. **Time** 45 minutes. **You need** [lesson 14](../notebooks/14_pipelines_among_other_ways.ipynb) and,
# since it runs in real processes, PyTorch. **In the paper:** not there; ZeRO is Rajbhandari et al. 2019 (arXiv 1910.02054).

# %%
from functools import partial

import numpy as np

from gpipe_edu import reference as ref
from gpipe_edu.course import check, counting, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.distributed import ring_links, run_processes

# %% [markdown]
# ## No link busier than another

# %%
predict("ex13/through-one")

# %% [markdown]
# In the ring each device cuts its gradient into D pieces. Three devices with gradients a, b, c, pieces 0 to 2; every device
# sends to its right neighbour, the last one to device 0. What has arrived is **bold**:
#
# | | device 0 has | device 1 has | device 2 has |
# |---|---|---|---|
# | before | a0, a1, a2 | b0, b1, b2 | c0, c1, c2 |
# | round 1 | a0, a1, **a2+c2** | **b0+a0**, b1, b2 | c0, **c1+b1**, c2 |
# | round 2 | a0, **a1+b1+c1**, a2+c2 | b0+a0, b1, **a2+b2+c2** | **a0+b0+c0**, c1+b1, c2 |
#
# That is the [reduce-scatter](../docs/glossary.md#all-reduce): one piece is complete on each device. Two more rounds copy
# the complete pieces to all, the all-gather.

# %%
predict("ex13/more-devices")

# %% [markdown]
# ## Your turn
#
# `send` and `receive` are given, and the neighbours with them. `send` copies what it is given, posts it and comes back at
# once; `receive` waits.


# %% nbgrader={"grade": false, "grade_id": "ex13-ring-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ring_all_reduce(rank: int, D: int, pieces: list, send, receive) -> list:
    """What device `rank` of D does in an all-reduce; it gives back D arrays, the sums over all devices.

    pieces: D arrays of float64, this device's gradient; piece p has the same length on all devices, but not that of
    other pieces. They may be overwritten. send(array): to the right neighbour, (rank + 1) % D. receive(like): an array
    from the left one; `like` is any array of the shape and type that is to come. The messages arrive in the order in
    which they were sent. D may be 1; then there is no neighbour.

    A device sends 2 (D - 1) messages of one piece each, and nothing is sent in any other way.
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
# Try it on three processes, the gradient of process k all k + 1: the sums are 6. `ring_links` makes `send` and `receive`
# of `torch.distributed`.


# %%
def try_ring(rank, D=3):
    with ring_links(rank, D) as (send, receive):
        return ring_all_reduce(rank, D, [np.full(2, rank + 1.0) for _ in range(D)], send, receive)


with counting("three processes", about=5):
    tried = run_processes(try_ring, 3)
for rank, sums in enumerate(tried):
    print(rank, sums)

# %% nbgrader={"grade": true, "grade_id": "ex13-ring-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex13/ring", ring_all_reduce)

# %%
# hint("ex13/ring")  # take the first # away for a hint; there is one after each try

# %%
progress()
