# %% [markdown]
# # Exercise 04: re-materialization by hand
#
# **Why care?** Activations are what fills a device. [Re-materialization](../docs/glossary.md#re-materialization) throws
# most of them away and computes them again. In a few lines of NumPy there is nothing mysterious left about it.
#
# **Difficulty** 2 of 3. **Time** 30 minutes. **You need** [lesson 05](../notebooks/05_rematerialization.ipynb) and
# what a [stage](../docs/glossary.md#stage) is. **In the paper:** section 2.3, where only stage inputs are stored.

# %%
import numpy as np

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict
from gpipe_edu.data import digits

# %% [markdown]
# ## Twice forward, once back
#
# `C` in this planned chart is the backward of a micro-batch that has been thrown away: first its forward once more,
# dotted, then its backward.

# %%
ge.simulate(ge.gpipe(3, 4, "late"))

# %%
predict("ex04/the-price")

# %% [markdown]
# ## What a layer keeps
#
# A layer of the reference engine has no memory. Its `forward` gives back the output, and what its backward will need:

# %%
layer = ref.Linear(3, 2, seed=0)
x = np.ones((4, 3))
y, saved = layer.forward(x)
dx, grads = layer.backward(np.ones((4, 2)), saved)
print("output", y.shape, " saved", [array.shape for array in saved], " dx", dx.shape)
print("grads", {name: value.shape for name, value in grads.items()})

# %% [markdown]
# Whoever calls it decides what becomes of `saved`. A stage of several layers that keeps every `saved` is the usual one.

# %%
predict("ex04/what-stays")

# %% [markdown]
# ## Your turn
#
# Write a stage that keeps only that. Several [micro-batches](../docs/glossary.md#micro-batch) are on their way at the
# same time, and they need not come back in the order in which they went.


# %% nbgrader={"grade": false, "grade_id": "04-stage-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Stage:
    """Consecutive layers on one device, with re-materialization.

    layers: a list of layers as above. grads: for each layer a dict of arrays, to which every backward adds. kept: yours
    to fill; at any time it may hold the stage's input for each micro-batch that has gone forward and not yet come back,
    and nothing else. Between calls, nothing is kept anywhere else either.
    """

    def __init__(self, layers: list) -> None:
        self.layers = layers
        self.grads = [{name: np.zeros_like(value) for name, value in layer.params.items()} for layer in layers]
        self.kept: dict = {}

    def forward(self, m: int, x):
        """The output of the stage for micro-batch m with the input x, an array of shape (n, ...)."""
        ### BEGIN SOLUTION
        self.kept[m] = x
        for layer in self.layers:
            x, _ = layer.forward(x)
        return x
        ### END SOLUTION

    def backward(self, m: int, dy):
        """Given the gradient of micro-batch m's output: adds to `grads`, returns the gradient of its input."""
        ### BEGIN SOLUTION
        x, again = self.kept.pop(m), []
        for layer in self.layers:
            x, saved = layer.forward(x)
            again.append(saved)
        for layer, saved, total in zip(self.layers[::-1], again[::-1], self.grads[::-1], strict=True):
            dy, grads = layer.backward(dy, saved)
            for name, value in grads.items():
                total[name] += value
        return dy
        ### END SOLUTION


# %% [markdown]
# Try it with one micro-batch, beside training without stages:

# %%
images, labels, _, _ = digits()
layers = ref.mlp([64, 32, 16, 10], seed=0)
stage = Stage(layers)
loss, dy = ref.cross_entropy(stage.forward(0, images[:20]), labels[:20])
stage.backward(0, dy)
_, exact = ref.train_sequential(layers, images[:20], labels[:20])
print("largest difference:", max(np.abs(a[n] - b[n]).max() for a, b in zip(stage.grads, exact, strict=True) for n in b))

# %% nbgrader={"grade": true, "grade_id": "04-stage-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("04-stage", Stage)

# %%
# hint("04-stage")  # take the first # away for a hint; there is one after each try

# %% [markdown]
# ## What it saves
#
# Eight micro-batches of 16 digits have gone forward through one stage of nine layers. How much does it hold? We count
# what your stage keeps, and what the layers would have saved:

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
# In PyTorch, `torch.utils.checkpoint.checkpoint(layers, x, use_reentrant=False)` does what your `Stage` does; it also
# brings back the random state, so that dropout drops the same values again.
#
# **Where next:** [lesson 06](../notebooks/06_pytorch_pipeline.ipynb). [Exercise 09](exercise_09_recompute.ipynb) moves
# the recompute to where it costs nothing.
