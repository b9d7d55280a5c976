# %% [markdown]
# # Exercise 11: a backward in two
#
# **Why care?** A backward has two results: the gradient of the input, for which another
# stage waits, and the gradients of the weights, for which nobody waits. If each
# backward is split in two, its halves can fill two thirds of 1F1B's idle time, provided
# that the forward and both halves take equally long. That is [zero
# bubble](../docs/glossary.md#zero-bubble), and here you build all of it: both halves of
# a block's backward, and the order in which devices run them.
#
# **Difficulty** 3 of 3. **Time** 45 minutes: 25 for the block, 20 for the order.
# **You need** [lesson 09](../notebooks/09_beyond_gpipe.ipynb), [exercise
# 07](exercise_07_one_f_one_b.ipynb) and the chain rule, and PyTorch at the very end.
# **In the paper:** not there; see Qi et al. 2024 (arXiv 2401.10241), sections 2 and 3.

# %%
import numpy as np

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.view import plot_bars

# %% [markdown]
# ## The smallest case
#
# Take one Linear, y = x W + b, and the gradient dy of its output. **I** is the gradient
# of the input: the previous stage waits for it. **W** is the gradient of the weights:
# nobody waits for it before the update. (In formulas a W is a matrix, in charts an op.)

# %%
predict("ex11/who-needs-weights")

# %%
rng = np.random.default_rng(0)
x, W, dy = rng.normal(size=(5, 3)), rng.normal(size=(3, 2)), rng.normal(size=(5, 2))
I_of_linear = dy @ W.T  # the op I: no x in it
W_of_linear = x.T @ dy  # the op W: no weights in it, and a sum over samples
print(
    "I gives",
    I_of_linear.shape,
    "as x has; W gives",
    W_of_linear.shape,
    "as the weights have",
)

# %% [markdown]
# Here are two stages on two devices, planned with F = I = W = 1 and B = 2. The upper
# chart has B; in the lower one, each B is split into I and W, so that device 0 gets its
# gradient earlier.

# %%
in_one = ge.Schedule.parse("F0 F1 B0 B1 \n F0 B0 F1 B1", name="1F1B")
in_two = ge.Schedule.parse(
    "F0 F1 I0 W0 I1 W1 \n F0 I0 F1 I1 W0 W1", name="I and W apart"
)
ge.compare(in_one, in_two)

# %% [markdown]
# ## Your turn: a block
#
# The block is small, half of a Transformer block: a norm, two Linears with tanh between
# them, and a path around them. Its W computes the gradients of the Linears and of the
# norm. In the other half, attention, only the Linears have a W. Attention scores have
# no weights, and their share of the work grows with the length of the text, so the
# longer the text, the smaller the part of a backward that can be postponed.
#
#     norm(x) = x_hat * scale + shift
#     y = x + tanh(norm(x) W1 + b1) W2 + b2
#
# The forward is given. For the backward, one formula is tedious to derive, so here it
# is. With d = du * scale, where du is the gradient of the norm's output, the norm's I
# is
#
#     (d - mean(d) - x_hat * mean(d * x_hat)) / spread
#
# The two means run over the features of each sample. They are there because every
# feature of a sample moves that sample's mean and spread.


# %% nbgrader={"grade": false, "grade_id": "ex11-block-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Block(ref.Layer):
    """y = x + tanh(norm(x) W1 + b1) W2 + b2, with its backward in two parts.

    A block serves many micro-batches, several of them in flight at a time. Whatever a
    micro-batch's W needs travels in `saved` and in `left`.

    x: an array of shape (n, h)
    params: arrays "scale", "shift" and "b2" of shape (h,), "W1" (h, f), "b1" (f,) and
        "W2" (f, h)

    Small print:
    - The block keeps nothing of its micro-batches.
    - No argument is changed, not even `saved` and `left`.
    - Between two mini-batches an optimizer writes new numbers into the params.
    - Any of these numbers may be 0, and n or f may be 1. All are float64.
    - Using the engine's own Linear or norms is an error in this exercise.
    """

    def __init__(self, params: dict) -> None:
        self.params = params

    def forward(self, x):
        """The output, and the arrays that the backward will need."""
        w = self.params
        spread = np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
        x_hat = (x - x.mean(axis=1, keepdims=True)) / spread
        u = x_hat * w["scale"] + w["shift"]
        t = np.tanh(u @ w["W1"] + w["b1"])
        return x + t @ w["W2"] + w["b2"], (x_hat, spread, u, t)

    def input_gradient(self, dy, saved):
        """I: (dx, left), the gradient of x and the arrays that W will need.

        dy: the gradient of the output, of shape (n, h)

        Small print:
        - No gradient of a weight is computed here.
        - `left` may have any form.
        """
        ### BEGIN SOLUTION
        w, (x_hat, spread, u, t) = self.params, saved
        dz = (dy @ w["W2"].T) * (1 - t**2)
        du = dz @ w["W1"].T
        d = du * w["scale"]
        of_norm = (
            d
            - d.mean(axis=1, keepdims=True)
            - x_hat * (d * x_hat).mean(axis=1, keepdims=True)
        )
        return dy + of_norm / spread, (dy, dz, du, x_hat, u, t)
        ### END SOLUTION

    def weight_gradient(self, left):
        """W: the gradient of every weight for this micro-batch.

        It repeats no work of I, so it does not need W1 and W2.

        Returns a dict with the same names as `params`.
        """
        ### BEGIN SOLUTION
        dy, dz, du, x_hat, u, t = left
        of_norm = {"scale": (du * x_hat).sum(axis=0), "shift": du.sum(axis=0)}
        return of_norm | {
            "W1": u.T @ dz,
            "b1": dz.sum(axis=0),
            "W2": t.T @ dy,
            "b2": dy.sum(axis=0),
        }
        ### END SOLUTION


# %% [markdown]
# Try it: move one weight a little up and down. The change of the loss divided by the
# change of the weight is the weight's gradient.


# %%
def weights(h, f, seed):
    draw = np.random.default_rng(seed).normal
    matrices = {
        "W1": draw(size=(h, f)) / np.sqrt(h),
        "W2": draw(size=(f, h)) / np.sqrt(f),
    }
    return {
        "scale": np.ones(h),
        "shift": np.zeros(h),
        "b1": np.zeros(f),
        "b2": np.zeros(h),
    } | matrices


x, block, e = rng.normal(size=(5, 4)), Block(weights(4, 6, seed=1)), 1e-6
y, saved = block.forward(x)
dx, left = block.input_gradient(y, saved)  # y: the gradient of (y ** 2).sum() / 2
grads, quotients = block.weight_gradient(left), {}
for name, where in {"scale": 1, "W1": (2, 3), "W2": (3, 2)}.items():
    losses = []
    for step in (e, -2 * e):
        block.params[name][where] += step
        losses.append((block.forward(x)[0] ** 2).sum() / 2)
    block.params[name][where] += e
    quotients[name] = (losses[0] - losses[1]) / (2 * e)
    assert np.isclose(grads[name][where], quotients[name], rtol=1e-4)
    both = f"by W {grads[name][where]:10.6f}   by a quotient {quotients[name]:10.6f}"
    print(f"{name:6} {both}")

# %% nbgrader={"grade": true, "grade_id": "ex11-block-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
check("ex11/block", Block)

# %%
# hint("ex11/block")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What a waiting W holds
#
# Postponing W is not free. Here is what it costs in bytes, for 32 digits and a block
# of 64 and 128 features:

# %%
data = digits()
x, y = data.x_train[:256].astype(float), data.y_train[:256]
blocks = [Block(weights(64, 128, seed)) for seed in range(4)]


def arrays_in(held):  # `left` may be a tuple, a dict, an object or a function
    if isinstance(held, np.ndarray):
        return [held]
    if hasattr(held, "__closure__"):
        held = [cell.cell_contents for cell in held.__closure__ or ()]
    elif not isinstance(held, (dict, list, tuple)):
        held = getattr(held, "__dict__", {})
    return [
        array
        for one in (held.values() if isinstance(held, dict) else held)
        for array in arrays_in(one)
    ]


def count(held):
    return sum({id(array): array.nbytes for array in arrays_in(held)}.values())


_, saved = blocks[0].forward(x[:32])
_, left = blocks[0].input_gradient(x[:32], saved)
print(f"from F to I: {count(saved):,} bytes, from I to W: {count(left):,}")
# numbers for each sample: dy, dz, du, x_hat, u, t over x_hat, spread, u, t
assert 1.9 < (64 + 128 + 64 + 64 + 64 + 128) / (64 + 1 + 64 + 128) < 2

# %% [markdown]
# ## Your turn: the order
#
# Now for the devices. **ZB-H1** is 1F1B with I instead of B, and a W for each I:
#
# - **As in 1F1B:** the same warm-up of K - 1 - k forwards, then the same alternation of
#   an F and an I. So the row of device k begins with K - k forwards.
# - **Each W is late** by as many micro-batches as memory allows, and stays that late to
#   the end of the row. After the last F there would be room to delay W further, but
#   that would only make the step longer.
# - **The cap:** a device holds a micro-batch from its F to its W, and no device holds
#   more than K. Whether a W has to come before the next F follows from this cap.

# %%
predict("ex11/longest-wait")


# %% nbgrader={"grade": false, "grade_id": "ex11-order-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def zb_h1(K: int, M: int) -> list:
    """ZB-H1 for K devices and M micro-batches, as a list of K rows of `ge.Op`.

    Row k is what device k runs, in order: F, I and W of every micro-batch. Here
    `ge.Op("I", m, k)` is the input gradient of micro-batch m.

    M: micro-batches, at least K
    Memory: no device holds more than K micro-batches at a time, from F to W.
    Time: if W is no longer than F and no longer than I, the step takes at most
        M (F + I + W) + (K - 1) (F + I - W).

    Small print:
    - You may also return a `ge.Schedule`, or any other form that gives the rows in
      order.
    - Calling a recipe is an error in this exercise.
    """
    ### BEGIN SOLUTION
    rows = []
    for k in range(K):
        row = [ge.Op("F", m, k) for m in range(K - 1 - k)]
        for m in range(M):
            if K - 1 - k + m < M:
                row.append(ge.Op("F", K - 1 - k + m, k))
            row.append(ge.Op("I", m, k))
            if m >= k:
                row.append(ge.Op("W", m - k, k))
        row += [ge.Op("W", m, k) for m in range(M - k, M)]
        rows.append(row)
    return rows
    ### END SOLUTION


# %%
mine = ge.Schedule(zb_h1(4, 8), name="my ZB-H1")
ge.compare(ge.one_f_one_b(4, 8), mine)

# %% nbgrader={"grade": true, "grade_id": "ex11-order-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
check("ex11/order", zb_h1)

# %%
# hint("ex11/order")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Your block in your order
#
# Now the NumPy engine runs your rows, with four blocks on four devices. It needs
# stages, so here is a stage that passes each op to your block and keeps the arrays that
# later ops need. (Ten of the 64 outputs are for the ten digits.)


# %%
class BlockStage(ref.Stage):
    def __init__(self, blocks, *others):
        super().__init__(blocks, *others)
        self.block, self.left = blocks[0], {}

    def forward(self, m, x):
        y, self.saved[m] = self.block.forward(x)
        return y

    def input_gradient(self, m, dy):
        dx, self.left[m] = self.block.input_gradient(dy, self.saved.pop(m))
        return dx

    def weight_gradient(self, m):
        for name, value in self.block.weight_gradient(self.left.pop(m)).items():
            self.grads[0][name] += value

    def backward(self, m, dy):  # B: both at once
        dx = self.input_gradient(m, dy)
        self.weight_gradient(m)
        return dx

    @property
    def held_bytes(self):
        return count([self.saved, self.left])


def digits_loss(outputs, labels):
    loss, gradient = ref.cross_entropy(outputs[:, :10], labels)
    return loss, np.pad(gradient, ((0, 0), (0, 54)))


# %%
mine = ge.Schedule(zb_h1(4, 8), name="my ZB-H1")
runs = {
    schedule.name: ref.train_pipeline(
        blocks, x, y, schedule, loss=digits_loss, make_stage=BlockStage
    )
    for schedule in (ge.one_f_one_b(4, 8), mine)
}
once, twice = (run.grads for run in runs.values())
assert ref.gradient_difference(twice, once) < 1e-12
held = {
    name: [max(entry.bytes for entry in row) / 1e6 for row in run.memory]
    for name, run in runs.items()
}
plot_bars(
    range(4), held, across="device", up="MB held at the peak, counted", numbers="{:.2f}"
)

# %% [markdown]
# The gradients agree, and the idle time is a third of 1F1B's. Memory is the price. The
# cap counts micro-batches: 4, as many as device 0 has under 1F1B. A micro-batch that
# waits for its W holds `left` instead of `saved`; `left` takes twice the bytes if it is
# (dy, dz, du, x_hat, u, t). In bytes every device then holds more than before, and the
# last device, where most Ws wait, holds twice as much as device 0 of 1F1B. (The
# Transformer of Qi et al. holds no more bytes than under 1F1B, because there W needs to
# keep no more than the whole backward.)
#
# ## The same row on PyTorch
#
# The PyTorch engine takes your rows as they are, and autograd splits its backward in
# two automatically. The weights and digits are the same as above:

# %%
import torch

from gpipe_edu.pytorch import GPipe


class TorchBlock(torch.nn.Module):
    def __init__(self, params):
        super().__init__()
        self.w = torch.nn.ParameterDict(
            {name: torch.tensor(value) for name, value in params.items()}
        )

    def forward(self, x):
        u = torch.nn.functional.layer_norm(
            x, x.shape[1:], self.w["scale"], self.w["shift"]
        )
        return (
            x
            + torch.tanh(u @ self.w["W1"] + self.w["b1"]) @ self.w["W2"]
            + self.w["b2"]
        )


net = torch.nn.Sequential(*(TorchBlock(block.params) for block in blocks))
mine = ge.Schedule(zb_h1(4, 8), name="my ZB-H1")
pipe = GPipe(net, partitions=4, micro_batches=8, devices=["cpu"], schedule=mine)
for _ in range(2):  # the first step of a pipe is slow
    net.zero_grad()
    pipe.step(
        torch.tensor(x),
        torch.tensor(y),
        lambda out, y: torch.nn.functional.cross_entropy(out[:, :10], y),
    )
theirs = [
    {name: weight.grad.numpy() for name, weight in stage.w.items()} for stage in net
]
pairs = [
    (ours[name], theirs[name])
    for ours, theirs in zip(twice, theirs, strict=True)
    for name in ours
]
error = ref.gradient_difference([a for a, _ in pairs], [b for _, b in pairs])
assert error < 1e-10
print(f"your block in NumPy, autograd in PyTorch, in your order: {error:.0e} apart")
pipe.timeline

# %% [markdown]
# This chart is [measured](../docs/glossary.md#measured): four threads on your processor
# ran I and W as separate ops. How much idle time is left depends on how many cores
# there are.

# %%
progress()

# %% [markdown]
# **Where next:** back to [lesson 09](../notebooks/09_beyond_gpipe.ipynb) for ZB-H2 and
# ZB-V, which fill the last third of the idle time.
