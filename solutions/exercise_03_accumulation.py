# %% [markdown]
# # Exercise 03: gradient accumulation
#
# **Why care?** Every pipeline accumulates gradients over micro-batches, and so does
# everybody whose batch does not fit into memory. A mistake in the few lines that do so
# raises no error: the loss still falls, but more slowly than it should.
#
# **Difficulty** 1 of 3. **Time** 25 minutes. **You need**
# [lesson 04](../notebooks/04_accumulation.ipynb) and a PyTorch training loop.
# **In the paper:** section 2.2, where the gradients of all micro-batches are
# accumulated for one update.

# %%
import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.pytorch import GPipe
from gpipe_edu.view import plot_lines

# %% [markdown]
# ## One update for all micro-batches
#
# Each B below adds its micro-batch's part to the gradient. The black bar is the one
# update of the [mini-batch](../docs/glossary.md#mini-batch). The chart is
# [planned](../docs/glossary.md#planned).

# %%
ge.simulate(ge.gpipe(3, 4))

# %% [markdown]
# Here is the smallest case that shows what can go wrong: five losses in two pieces, of
# 3 and 2 samples.

# %%
losses = torch.tensor([1.0, 2.0, 3.0, 10.0, 20.0])
first, second = losses[:3].mean(), losses[3:].mean()
assert torch.isclose(losses.mean(), 3 / 5 * first + 2 / 5 * second)
print(
    f"mean of all {losses.mean():.1f}, mean of the two means {(first + second) / 2:.1f}"
)

# %% [markdown]
# And before you write the loop, one question about `zero_grad`:

# %%
predict("ex03/zero-late")

# %% [markdown]
# ## Your turn
#
# Write one training step that shows the network no more than one micro-batch at a time.
# Afterwards the weights must be the same as after a step with the whole mini-batch. To
# cut the mini-batch, you may use `ge.split_batch`, or your `split` of [exercise
# 01](exercise_01_splitting.ipynb). If M is larger than N, some pieces are empty.
#
# <details><summary>Small print</summary>
#
# - There are M micro-batches at most.
# - Gradients from before the step do not count, nor do old gradients of weights that
#   are now frozen.
# - Nothing is kept for the next call, and no output or graph stays in memory.
# - The loss is the mini-batch's mean: a number, or a tensor without a graph. It may
#   be rounded to single precision; the weights may not.
# - The optimizer keeps its settings, each layer its mode, training or evaluation, and
#   each weight its `requires_grad`.
# - x and y are not changed, nor made to require a gradient.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex03-accumulation-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def train_step(net, loss_fn, optimizer, x, y, M: int) -> float:
    """One training step on the mini-batch (x, y) in M micro-batches; returns its loss.

    Micro-batches go one after another, each forward and back once: only one of them has
    activations in memory. Then the optimizer steps once. The weights end up as after a
    step with the mini-batch.

    net: an nn.Module; some weights may be frozen (`requires_grad` is False)
    loss_fn: (output, target) -> a tensor with one value, the mean over these samples
    optimizer: of the weights of `net`
    x, y: tensors with N >= 1 samples each; M need not divide N
    """
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    total = 0.0
    for piece_x, piece_y in ge.split_batch((x, y), M):
        if len(piece_x):
            loss = loss_fn(net(piece_x), piece_y) * len(piece_x) / len(x)
            loss.backward()
            total += loss.item()
    optimizer.step()
    return total
    ### END SOLUTION


# %% [markdown]
# Try it on ten digits:

# %%
torch.manual_seed(0)
data = digits()
x, y = torch.tensor(data.x_train), torch.tensor(data.y_train)
small = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10)).double()
sgd = torch.optim.SGD(small.parameters(), lr=0.1)
train_step(small, nn.CrossEntropyLoss(), sgd, x[:10].double(), y[:10], M=4)

# %% [markdown]
# ## Check
#
# This check trains a network, so it takes a few seconds.

# %% nbgrader={"grade": true, "grade_id": "ex03-accumulation-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex03/accumulation", train_step)

# %%
# hint("ex03/accumulation")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Compared with a real pipeline
#
# Take two networks with the same weights. Your function trains one of them on one
# device; `GPipe` trains the other in three stages, and accumulates gradients, too. Will
# the weights of the two networks stay equal?


# %%
def network():
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(64 if i == 0 else 48, 48), nn.ReLU()) for i in range(2)
    ]
    return nn.Sequential(*blocks, nn.Linear(48, 10)).double()


# %%
single, pipe = network(), GPipe(network(), partitions=3, micro_batches=4)
loss_fn = nn.CrossEntropyLoss()
ours, theirs = (
    torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9) for net in (single, pipe)
)
losses = []
for start in range(0, 1300, 65):
    batch_x, batch_y = x[start : start + 65].double(), y[start : start + 65]
    mine = train_step(single, loss_fn, ours, batch_x, batch_y, M=4)
    losses.append((mine, pipe.step(batch_x, batch_y, loss_fn).item()))
    theirs.step()
    theirs.zero_grad()

pairs = zip(single.parameters(), pipe.parameters(), strict=True)
assert max((a - b.cpu()).abs().max().item() for a, b in pairs) < 1e-9
names = ["your train_step, one device", "GPipe, three stages"]
lines = dict(zip(names, zip(*losses, strict=True), strict=True))
plot_lines(
    range(20), lines, across="training step", up="loss, measured", under=names[:1]
)

# %% [markdown]
# The dark line lies on the wide, pale one: after 20 steps of 65 samples in 4
# micro-batches, the weights of the two networks differ by no more than rounding.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 05](../notebooks/05_rematerialization.ipynb). Micro-batches in
# flight fill the memory; [re-materialization](../docs/glossary.md#re-materialization)
# empties it again.
