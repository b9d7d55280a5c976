# %% [markdown]
# # Exercise 14: the buffer's precision
#
# **Why care?** A pipeline adds up the gradients of many micro-batches. In bf16 this sum
# loses more and more of each new gradient: with a large M, the result is off by more
# than a tenth, and no error is raised. The cure costs two more bytes per weight, and
# every large training run pays them.
#
# **Difficulty** 2 of 3. **Time** 25 minutes. **You need** [lesson
# 04](../notebooks/04_accumulation.ipynb), [exercise 03](exercise_03_accumulation.ipynb)
# and PyTorch. **In the paper:** section 2.2, where the gradients of all micro-batches
# are accumulated; it does not say in which type.

# %%
import copy
from itertools import pairwise

import torch
from torch import nn

import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution, track
from gpipe_edu.data import digits
from gpipe_edu.pytorch import GPipe
from gpipe_edu.view import plot_lines

# %% [markdown]
# ## A sum that stops
#
# bf16 has the range of fp32 in half the bytes, and pays with digits: it has 8 binary
# digits, while fp32 has 24.

# %%
predict("ex14/plus-one")

# %%
exact, total, sums = list(range(0, 1025)), torch.zeros((), dtype=torch.bfloat16), [0.0]
for _ in range(1024):
    total += 1
    sums.append(total.item())
lines = {"in bf16": sums, "exact": [float(count) for count in exact]}
plot_lines(exact, lines, across="ones added", up="the sum (measured)")

# %% [markdown]
# The same happens to the gradients of micro-batches: after a few hundred of them, the
# sum is hundreds of times as large as the next gradient. In PyTorch `.grad` has the
# type of its weight, so with bf16 weights `.grad` is exactly such a sum. (Real
# gradients have different sizes and signs, so their sums don't stop all at once; they
# lose more and more.)

# %%
predict("ex14/what-helps")

# %% [markdown]
# ## Your turn
#
# Forward and backward stay in bf16. Only the sum over micro-batches gets its own
# buffer, in fp32. To cut the mini-batch, you may use `ge.split_batch`. If M is larger
# than N, some pieces are empty.
#
# <details><summary>Small print</summary>
#
# - The sizes of micro-batches differ by one sample at most. Pieces without samples are
#   left out.
# - Besides the buffers, at most the gradients of one micro-batch are in memory.
# - The buffers take 4 bytes per weight: they are float32, and no wider.
# - Gradients that were in `.grad` before do not count. At the end every `.grad` is
#   None.
# - Weights, their type and their `requires_grad` stay as they are.
# - The mode of `net` stays as it is, too, even during the forwards.
# - Nothing is kept for the next call, and no call changes what an earlier one
#   returned.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex14-buffer-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def accumulate(net, loss_fn, x, y, M: int) -> list:
    """The gradients of the mini-batch (x, y), from M micro-batches, summed in float32.

    Each micro-batch goes forward and back once, in bf16. Every sum over micro-batches
    is computed in float32.

    net: an nn.Module with bf16 weights, all of them trained
    loss_fn: (output, target) -> a tensor with one value, the mean over these samples
    x, y: tensors with N samples each, x in bf16, N at least 1; M need not divide N
    Returns a list with a float32 tensor for each weight, in the order of
        `net.parameters()`.
    """
    ### BEGIN SOLUTION
    weights = list(net.parameters())
    buffers = [torch.zeros_like(weight, dtype=torch.float32) for weight in weights]
    net.zero_grad()
    for piece_x, piece_y in ge.split_batch((x, y), M):
        if len(piece_x):
            loss_fn(net(piece_x), piece_y).backward()
            for buffer, weight in zip(buffers, weights, strict=True):
                buffer += weight.grad.float() * (len(piece_x) / len(x))
                weight.grad = None
    return buffers
    ### END SOLUTION


# %% [markdown]
# Try it on ten digits:

# %%
torch.manual_seed(0)
data = digits()
small = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10)).bfloat16()
images = torch.tensor(data.x_train[:10]).bfloat16()
labels = torch.tensor(data.y_train[:10])
gradients = accumulate(small, nn.CrossEntropyLoss(), images, labels, M=4)
[(gradient.dtype, tuple(gradient.shape)) for gradient in gradients]

# %% nbgrader={"grade": true, "grade_id": "ex14-buffer-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex14/buffer", accumulate)

# %%
# hint("ex14/buffer")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Measured
#
# We take 1,024 digits and a network with 150,000 weights in bf16. The truth is the
# gradient of the same weights in float64. `plain` is the obvious code: it adds the
# gradients up in `.grad`, in the type of the weights.

# %%
torch.set_num_threads(1)
torch.manual_seed(0)
sizes, loss_fn = (64, 256, 256, 256, 10), nn.CrossEntropyLoss()
layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
net = nn.Sequential(*layers[:-1]).bfloat16()
x, y = torch.tensor(data.x_train[:1024]).bfloat16(), torch.tensor(data.y_train[:1024])
truth = copy.deepcopy(net).double()
loss_fn(truth(x.double()), y).backward()


def row(gradients):
    return torch.cat([gradient.double().flatten() for gradient in gradients])


exact = row(weight.grad for weight in truth.parameters())


def error(gradients):
    return float((row(gradients) - exact).norm() / exact.norm())


def plain(model, loss_fn, x, y, M):
    model.zero_grad()
    for some_x, some_y in ge.split_batch((x, y), M):
        (loss_fn(model(some_x), some_y) * len(some_x) / len(x)).backward()
    found = [weight.grad for weight in model.parameters()]
    model.zero_grad()
    return found


# %%
Ms, errors = [8, 64, 256, 1024], {"sum in bf16": [], "your buffer in fp32": []}
for M in track(Ms, "micro-batches"):
    for name, way in zip(errors, (plain, accumulate), strict=True):
        errors[name].append(error(way(net, loss_fn, x, y, M)))
for name, found in errors.items():
    print(
        f"{name:20}",
        *(f"M = {M}: {off:6.2%}  " for M, off in zip(Ms, found, strict=True)),
    )
assert errors["sum in bf16"][-1] > 0.08
assert max(errors["your buffer in fp32"]) < 0.01
plot_lines(
    Ms,
    errors,
    across="micro-batches, M",
    up="error of the gradient (measured)",
    doubling=True,
    tenfold=True,
)

# %% [markdown]
# The lower line is the error of the forwards and backwards in bf16; M makes no
# difference to it. The upper line starts near the lower one, and at M = 1,024 about an
# eighth of the gradient is wrong. That is not noise: the last bits of late
# micro-batches' gradients were cut off.
#
# ## What the engines do, and what it costs
#
# `GPipe` has such buffers unless it is told otherwise:

# %%
for wide in (True, False):
    settings = {"accumulate_in_fp32": wide, "measure_memory": True}
    pipe = GPipe(copy.deepcopy(net), 2, 256, devices=["cpu"], **settings)
    pipe.step(x, y, loss_fn)
    off = error(weight.grad for weight in pipe.parameters())
    held = sum(pipe.gradient_memory)
    print(
        f"accumulate_in_fp32={wide!s:5}: error {off:.2%}, {held:,} bytes for the sums"
    )

# %% [markdown]
# That is four bytes per weight instead of two, and an error below half a percent. In
# the bill of mixed precision with Adam, the total is 18 bytes per weight: 2 for the
# bf16 weight, 4 for the gradient in fp32, 12 for the optimizer's fp32 copy and its two
# moments. For 8 billion weights the buffer is 32 GB; like the weights, it is divided
# among stages and replicas.

# %%
progress()

# %% [markdown]
# **Where next:** [lesson 01](../notebooks/01_memory_wall.ipynb) has the bill of a
# model's memory; [lesson 05](../notebooks/05_rematerialization.ipynb) is about the
# other large part of that bill, activations.
