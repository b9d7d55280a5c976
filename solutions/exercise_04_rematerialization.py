# %% [markdown]
# # Exercise 04: re-materialization, by hand and in PyTorch
#
# **Why care?** Activations take most of a device's memory.
# [Re-materialization](../docs/glossary.md#re-materialization) throws most of them away
# and computes them again. You write it in a few lines of NumPy, and then use PyTorch's
# own function for it, without falling into its traps.
#
# **Difficulty** 2 of 3. **Time** 45 minutes: 30 in NumPy, 15 in PyTorch. **You need**
# [lesson 05](../notebooks/05_rematerialization.ipynb) and what a
# [stage](../docs/glossary.md#stage) is; for the second half, PyTorch. **In the paper:**
# section 2.3. There, each device stores "output activations at the partition
# boundaries": the output of stage k-1 is the input of stage k.

# %%
import numpy as np

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits

# %% [markdown]
# ## Twice forward, once back
#
# In this planned chart, `C` is the backward of a micro-batch whose activations have
# been thrown away: first its forward runs once more (dotted), then its backward.

# %%
ge.simulate(ge.gpipe(3, 4, "late"))

# %%
predict("ex04/the-price")

# %% [markdown]
# ## What a layer keeps
#
# A layer of the reference engine has no memory. Its `forward` returns the output and
# the arrays that its backward will need:

# %%
layer = ref.Linear(3, 2, seed=0)
x = np.ones((4, 3))
y, saved = layer.forward(x)
dx, grads = layer.backward(np.ones((4, 2)), saved)
print("output", y.shape, " saved", [array.shape for array in saved], " dx", dx.shape)
print("grads", {name: value.shape for name, value in grads.items()})

# %% [markdown]
# The caller decides what to do with `saved`. An ordinary stage keeps the `saved` of all
# its layers.

# %%
predict("ex04/what-stays")

# %% [markdown]
# ## Your turn
#
# Write a stage that keeps only its input. Several
# [micro-batches](../docs/glossary.md#micro-batch) are under way at the same time, and
# they need not come back in the order in which they went forward.


# %% nbgrader={"grade": false, "grade_id": "ex04-stage-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Stage:
    """Consecutive layers on one device, with re-materialization.

    `forward` runs every layer once, and only the stage's input is kept. `backward` runs
    every layer forward once more before it goes back.

    layers: a list of layers as above
    grads: for each layer a dict of arrays; every backward adds to them
    kept: yours to fill, with the stage's input for each micro-batch that has gone
        forward but not yet come back

    Small print:
    - Nothing else is kept between two calls, neither here nor elsewhere.
    - Nothing is left of a micro-batch that has come back.
    - The arrays that are passed in are not changed, nor are the weights.
    - A stage serves many mini-batches: in each one, m begins at 0 again, and `grads`
      goes on adding up.
    """

    def __init__(self, layers: list) -> None:
        self.layers = layers
        self.grads = [
            {name: np.zeros_like(value) for name, value in layer.params.items()}
            for layer in layers
        ]
        self.kept: dict = {}

    def forward(self, m: int, x):
        """The stage's output, an array, for micro-batch m.

        x: the stage's input, an array of shape (n, ...)
        """
        ### BEGIN SOLUTION
        self.kept[m] = x
        for layer in self.layers:
            x, _ = layer.forward(x)
        return x
        ### END SOLUTION

    def backward(self, m: int, dy):
        """Add micro-batch m's gradients to `grads`; return the stage's input gradient.

        dy: the gradient of micro-batch m's output
        Returns an array of the same shape as x.
        """
        ### BEGIN SOLUTION
        x, again = self.kept.pop(m), []
        for layer in self.layers:
            x, saved = layer.forward(x)
            again.append(saved)
        for layer, saved, total in zip(
            self.layers[::-1], again[::-1], self.grads[::-1], strict=True
        ):
            dy, grads = layer.backward(dy, saved)
            for name, value in grads.items():
                total[name] += value
        return dy
        ### END SOLUTION


# %% [markdown]
# Try it with one micro-batch, and compare its gradients with those of training without
# stages:

# %%
images, labels, _, _ = digits()
layers = ref.mlp([64, 32, 16, 10], seed=0)
stage = Stage(layers)
loss, dy = ref.cross_entropy(stage.forward(0, images[:20]), labels[:20])
stage.backward(0, dy)
_, exact = ref.train_sequential(layers, images[:20], labels[:20])
print(
    "largest difference:",
    max(
        np.abs(a[n] - b[n]).max()
        for a, b in zip(stage.grads, exact, strict=True)
        for n in b
    ),
)

# %% nbgrader={"grade": true, "grade_id": "ex04-stage-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex04/stage", Stage)

# %%
# hint("ex04/stage")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What it saves
#
# Eight micro-batches of 16 digits have gone forward through one stage of nine layers.
# How much does this stage hold? We count what your stage keeps, and what the layers
# would have saved:

# %%
deep = ref.mlp([64, 64, 64, 64, 64, 10], seed=0)
mine, all_saved = Stage(deep), 0
for m, piece in enumerate(ge.split_batch(images[:128], 8)):
    mine.forward(m, piece)
    values, arrays = piece, {}
    for layer in deep:
        values, saved = layer.forward(values)
        arrays |= {id(array): array for array in saved}
    all_saved += sum(array.nbytes for array in arrays.values())

only_inputs = sum(piece.nbytes for piece in mine.kept.values())
assert only_inputs < all_saved / 4
print(f"kept {only_inputs:,} bytes, saved by the layers {all_saved:,}")

# %% [markdown]
# ## The same in PyTorch
#
# `torch.utils.checkpoint.checkpoint` does for any function what your stage does for its
# layers: it calls the function, keeps its input, and calls the function again in the
# backward. It also keeps the [random state](../docs/glossary.md#random-state) of the
# forward, so that dropout draws the same mask again. Your NumPy stage did not need
# that, because its layers draw nothing. The stage below prints a line whenever it runs:

# %%
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.study import Ledger
from gpipe_edu.view import plot_bars

tell = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
tell.register_forward_pre_hook(lambda *_: print("the stage runs"))
y = checkpoint(tell, torch.ones(2, 3), use_reentrant=False)
print("now the backward")
y.sum().backward()

# %% [markdown]
# Now a network is cut into stages. Not every stage has to save memory: if its device
# has room, a stage keeps everything and runs once.

# %%
predict("ex04/how-often")

# %% [markdown]
# ## Your turn, in PyTorch
#
# Write the forward of a network that is cut into stages, some of which are
# re-materialized. The input is a batch of images; like all data, it requires no
# gradient.
#
# <details><summary>Small print</summary>
#
# - Values and gradients are the same as with plain stages, dropout included, and have
#   the same type, in this step and in later ones.
# - Several inputs may go forward before the first comes back.
# - After the backward nothing is kept.
# - Under `torch.no_grad()` nothing is kept at all, and no graph is built.
# - Your function leaves x, both lists and the mode of each layer as they were.
# - In evaluation mode, the same stages as in training may run again, or none: both are
#   right.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex04-checkpoint-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def forward(stages: list, x: torch.Tensor, again: list) -> torch.Tensor:
    """The output of all `stages`, run one after another, for the input x.

    Where `again` is True, only the stage's input (and the random state) is kept, and
    the backward runs all layers of the stage forward once more. Where it is False,
    everything is kept and nothing runs again.

    stages: a list of nn.Sequential
    x: a tensor of shape (n, ...); it may require a gradient or not
    again: one bool per stage
    """
    ### BEGIN SOLUTION
    for stage, more in zip(stages, again, strict=True):
        x = checkpoint(stage, x, use_reentrant=False) if more else stage(x)
    return x
    ### END SOLUTION


# %% [markdown]
# Try it on four stages and 128 digits. In which order do the stages run, and which of
# them run twice?


# %%
def network():
    torch.manual_seed(0)
    sizes = [(64, 64)] * 3 + [(64, 10)]
    return [
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(*size))
        for size in sizes
    ]


batch, answers = torch.tensor(images[:128]).float(), torch.tensor(labels[:128])
stages, runs = network(), []
for k, each in enumerate(stages):
    each[0].register_forward_pre_hook(lambda *_, k=k: runs.append(k))

# %%
runs.clear()
output = forward(stages, batch, [True, True, False, False])
nn.functional.cross_entropy(output, answers).backward()
print("stages, in the order in which they ran:", runs)

# %% nbgrader={"grade": true, "grade_id": "ex04-checkpoint-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex04/checkpoint", forward)

# %%
# hint("ex04/checkpoint")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What stays in memory
#
# `Ledger` counts what autograd saves while your function runs; the engine `GPipe` uses
# `Ledger`, too. There is one bar for each choice of the stages that run again:

# %%
choices = {
    "no stage runs again": [False] * 4,
    "stages 0 and 1": [True, True, False, False],
    "all stages": [True] * 4,
}
held = {}
for name, again in choices.items():
    ledger = Ledger(weight for each in stages for weight in each.parameters())
    with ledger.watch((0, 0)):
        forward(stages, batch, again)
    held[name] = ledger.held / 1024

assert held["all stages"] < held["stages 0 and 1"] < held["no stage runs again"]
plot_bars(list(held), {"KiB": list(held.values())}, up="KiB saved, measured")

# %% [markdown]
# ## Compared with the engine
#
# `GPipe` with `checkpoint="always"` also runs every stage again, but on a schedule.
# Your network and the pipeline's start with the same weights. They have no dropout
# here, because micro-batches would draw different numbers from those of one batch.

# %%
mine, blocks = network(), network()
for each in (*mine, *blocks):
    each[2].p = 0.0
pipe = GPipe(nn.Sequential(*blocks), partitions=4, micro_batches=8, checkpoint="always")
loss = nn.functional.cross_entropy(forward(mine, batch, [True] * 4), answers)
loss.backward()
same = pipe.step(batch, answers, nn.CrossEntropyLoss())
pairs = zip(nn.Sequential(*mine).parameters(), pipe.parameters(), strict=True)
assert max((a.grad - b.grad.cpu()).abs().max().item() for a, b in pairs) < 1e-6
print(f"loss {loss.item():.6f} with your function, {same.item():.6f} in the pipeline")

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 06](../notebooks/06_pytorch_pipeline.ipynb).
# [Exercise 09](exercise_09_recompute.ipynb) moves the recompute to a time when a device
# waits anyway.
