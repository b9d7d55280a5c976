# %% [markdown]
# # Exercise 05: the GPipe wrapper
#
# **Why care?** A good pipeline goes unnoticed: `pipe(x)` takes the place of `net(x)`,
# while loss, optimizer and stored weights stay the same. Once you have written one, no
# pipeline library is a black box.
#
# **Difficulty** 3 of 3. **Time** 45 minutes. **You need**
# [lesson 06](../notebooks/06_pytorch_pipeline.ipynb),
# [exercise 02](exercise_02_clock.ipynb) (the clock),
# [exercise 04](exercise_04_rematerialization.ipynb) (`checkpoint`) and how to write an
# `nn.Module`. **In the paper:** sections 2.1 to 2.3, the whole algorithm.

# %%
import itertools
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gpipe_edu as ge
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.study import Chore, nap, watch
from gpipe_edu.timeline import dispatch_calls
from gpipe_edu.view import plot_lines

torch.set_num_threads(1)  # one core for a matrix product, as in lesson 06

# %% [markdown]
# ## What it will do
#
# You write only the forward: `pipe(x)` cuts x into
# [micro-batches](../docs/glossary.md#micro-batch), takes them through the
# [stages](../docs/glossary.md#stage) and joins their outputs. If your forward leaves a
# graph through which autograd finds its way back, `loss_fn(pipe(x), y).backward()` does
# the rest.

# %%
predict("ex05/reverse")

# %%
goal = ge.Schedule.parse("\n".join(["F0 F1 F2 F3 B3 C2 C1 C0"] * 3), name="except_last")
ge.simulate(goal)

# %% [markdown]
# That is the goal, planned for three devices. C is a backward that
# [recomputes](../docs/glossary.md#recompute) first, because its stage has kept only the
# input. Micro-batch 3 comes back first, so its activations are all kept, and its
# backward is a plain B. This is `checkpoint="except_last"`.

# %% [markdown]
# ## Step 1: cut the network
#
# A slice of an `nn.Sequential` is itself an `nn.Sequential`, and holds the very same
# layers:

# %%
tiny = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
tail = tiny[1:]
assert tail[1] is tiny[2]
print(tail)

# %% [markdown]
# The [balance](../docs/glossary.md#balance) says how many layers each stage has. Here
# `[1, 2]` would make two stages, the first with one Linear. Write `cut`.


# %% nbgrader={"grade": false, "grade_id": "ex05-stages-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cut(net: nn.Sequential, balance) -> list:
    """Cut `net` into stages: stage k runs the next `balance[k]` layers, in their order.

    The stages share their layers with `net`. A layer that appears in `net` in several
    places (an activation, say) counts each time.

    balance: a list of whole numbers, one per stage
    Returns a list of modules.

    Small print:
    - Raises ValueError if a count is below 1, or if the counts do not add up to the
      number of layers.
    - `balance` and `net` are not changed: each layer keeps its mode, training or
      evaluation, and each weight its `requires_grad`.
    """
    ### BEGIN SOLUTION
    if min(balance, default=0) < 1 or sum(balance) != len(net):
        raise ValueError(
            f"balance is {balance}; counts must be at least 1 and add up to {len(net)}"
        )
    stages, start = [], 0
    for count in balance:
        stages.append(net[start : start + count])
        start += count
    return stages
    ### END SOLUTION


# %%
cut(tiny, [1, 2])

# %% nbgrader={"grade": true, "grade_id": "ex05-stages-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
check("ex05/stages", cut)

# %%
# hint("ex05/stages")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## Step 2: the order of the calls
#
# With a device for each stage, calling a stage only *dispatches* work, and your loop
# continues while the device computes. (On a CPU, the call itself computes. More on that
# below.) So how long devices wait depends on the order of your calls. The obvious order
# is stage by stage:

# %%
predict("ex05/handing-out")


# %%
def picture(order, name):
    ticks = dispatch_calls(order)
    spans = [
        ge.Span(k, ge.Op("F", m, k), t, t + 1)
        for t, tick in enumerate(ticks)
        for m, k in tick
    ]
    return ge.Timeline(spans, devices=3, name=name)


by_stage = [(m, k) for k in range(3) for m in range(4)]
by_clock = [(t - k, k) for t in range(6) for k in range(3) if 0 <= t - k < 4]
waits = "one call waits at most"
ge.compare(
    picture(by_stage, f"stage by stage, {waits}"),
    picture(by_clock, f"by the clock, {waits}"),
)

# %% [markdown]
# The order of the clock is that of exercise 02: **all calls of tick 0, then those of
# tick 1, ...; in tick t, stage k takes micro-batch t − k**, if there is a micro-batch
# with that number. No device waits longer than the pipeline itself demands. (Real
# devices can queue more than one call, so on them a worse order costs less than these
# charts show. The clock's order needs no such queue: the calls of a tick don't need
# each other's results, so K workers could take them at the same time.)
#
# ## Step 3: the wrapper
#
# PyTorch asks three things of the wrapper:
#
# - **Registered layers.** A module finds parameters only in layers that are registered
#   with it; layers in a plain list do not count. `self.add_module(name, layer)`
#   registers a layer, and `net.named_children()` gives all layers with their names. If
#   the pipeline uses these names, stored weights of `net` fit the pipeline, and the
#   other way round. (A layer that appears in `net` twice is listed only once, under one
#   name. For an activation that is enough: there is nothing to store.)
# - **Recompute.** `checkpoint(stage, x, use_reentrant=False)` returns the same as
#   `stage(x)` and keeps only x. (Inside `__init__`, the name `checkpoint` means the
#   argument of that name.)
# - **Nothing else.** Each micro-batch's activation goes on to the next stage unchanged;
#   after the last stage, the outputs are joined.
#
# Your `cut` may help, as may `ge.split_batch`. (If N < M, some of its pieces are
# empty.) A good first goal is `checkpoint="never"`; the check tries that first.
#
# <details><summary>Small print</summary>
#
# - The sizes of micro-batches differ by one sample at most.
# - A layer in several places of `net` counts each time. Such a layer has no weights.
# - The parameters are net's own, and state_dict() has the same keys as
#   net.state_dict().
# - Raises ValueError for a `checkpoint` that is none of the three, and for a balance
#   that `cut` refuses.
# - The default of `checkpoint` is "except_last".
# - Building the pipeline changes neither `balance` nor `net`.
# - In evaluation mode the same micro-batches as in training may be recomputed, or none:
#   both are right.
# - x is not changed, and after the step neither x nor any activation is held.
# - Gradients are added to those already in `.grad`.
# - Under torch.no_grad(), no graph is built.
#
# </details>


# %% nbgrader={"grade": false, "grade_id": "ex05-wrapper-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class MyGPipe(nn.Module):
    """`net` as a pipeline: pipe(x) equals net(x), and a backward gives net's gradients.

    A mini-batch is cut into M micro-batches: runs of neighbours, in order. If it has
    N < M samples, it is cut into N.

    net: an nn.Sequential
    balance: as in `cut`
    checkpoint: which micro-batches are recomputed in the backward, on every stage, from
        the stage's input. "always": all; "except_last": all but the last; "never": none
    """

    def __init__(
        self, net: nn.Sequential, balance, M: int, checkpoint: str = "except_last"
    ) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        if checkpoint not in ("always", "except_last", "never"):
            raise ValueError(
                f"checkpoint is {checkpoint!r}; it must be always, except_last or never"
            )
        for name, layer in net.named_children():
            self.add_module(name, layer)
        self.stages, self.M, self.mode = cut(net, balance), M, checkpoint
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of net for x of shape (N, ...), with N at least 1.

        The stages are called in the order of the clock, in training and in evaluation.
        """
        ### BEGIN SOLUTION
        pieces = [piece for piece in ge.split_batch(x, self.M) if len(piece)]
        thrown_away = {
            "always": len(pieces),
            "except_last": len(pieces) - 1,
            "never": 0,
        }[self.mode]
        for t in range(len(pieces) + len(self.stages) - 1):
            for k, stage in enumerate(self.stages):
                m = t - k
                if 0 <= m < thrown_away:
                    pieces[m] = checkpoint(stage, pieces[m], use_reentrant=False)
                elif 0 <= m < len(pieces):
                    pieces[m] = stage(pieces[m])
        return torch.cat(pieces)
        ### END SOLUTION


# %% [markdown]
# Compare your pipeline with one device, on ten digits in 4 micro-batches:

# %%
data = digits()
x, y = torch.tensor(data.x_train).double(), torch.tensor(data.y_train)
loss_fn = nn.CrossEntropyLoss()


def network(*widths):
    torch.manual_seed(0)  # the same weights at every call
    linears = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
    layers = [layer for linear in linears for layer in (linear, nn.Tanh())]
    return nn.Sequential(*layers[:-1]).double()


small, balance = (64, 64, 64, 10), [2, 2, 1]


def difference(ours, theirs):
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    return max(
        ((a.grad - b.grad).abs().max() / b.grad.abs().max()).item() for a, b in pairs
    )


# %%
net, single = network(*small), network(*small)
loss_fn(MyGPipe(net, balance, M=4)(x[:10]), y[:10]).backward()
loss_fn(single(x[:10]), y[:10]).backward()
print("largest relative difference of a gradient:", difference(net, single))

# %% nbgrader={"grade": true, "grade_id": "ex05-wrapper-check", "locked": true, "points": 6, "schema_version": 3, "solution": false, "task": false}
check("ex05/wrapper", MyGPipe)

# %%
# hint("ex05/wrapper")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What really happened
#
# `watch` times the layers. The first chart shows your calls as they ran, **measured**.
# The second shows the same calls with the same times,
# [replayed](../docs/glossary.md#replayed) as if each stage had its own device.

# %%
large = (64, 512, 64, 512, 64, 512, 10)
even = [4, 4, 3]  # stages that cost about the same
net = network(*large)
pipe = MyGPipe(net, even, M=4)
for _ in range(2):  # the first step warms up
    with watch(net, even) as calls:
        loss_fn(pipe(x[:1000]), y[:1000]).backward()
assert calls.schedule.problems() == []
print(calls.schedule)
ge.compare(
    calls.measured_timeline("one thread"),
    calls.replayed_timeline("the same calls, three devices"),
)

# %% [markdown]
# As a [schedule](../docs/glossary.md#schedule), your calls are the goal from the top of
# this page, and the doctor finds nothing wrong with them. But in the measured chart the
# stages take turns, because there is only one thread. More on this later; first, does
# the pipeline learn?
#
# ## Train with it
#
# We train for twenty steps with mini-batches of 65, which 4 does not divide, and
# compare with the same network on one device.


# %%
def train(model):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9), []
    for start in range(0, 1300, 65):
        optimizer.zero_grad()
        loss = loss_fn(model(x[start : start + 65]), y[start : start + 65])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def score(model):
    model.eval()
    with torch.no_grad():
        return (
            (model(torch.tensor(data.x_test)).argmax(1) == torch.tensor(data.y_test))
            .double()
            .mean()
        )


# %%
pipe, single = MyGPipe(network(*small), balance, M=4), network(*small)
mine, theirs = train(pipe), train(single)
assert max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) < 1e-9
assert score(pipe) > 0.8
network(*small).load_state_dict(
    pipe.state_dict()
)  # what the pipeline has learned fits the plain network
print(f"{score(pipe):.0%} of the test digits right, {score(single):.0%} on one device")
lines = {"one device": theirs, "your pipeline": mine}
plot_lines(
    range(20), lines, across="training step", up="loss, measured", under=["one device"]
)

# %% [markdown]
# ## Compared with ours
#
# You call the `GPipe` of this course just like yours. What `GPipe` adds is a **worker**
# for each stage: a thread that runs only this stage, forward and backward. To see what
# workers gain, take stages that sleep. A sleeping stage needs no core, so such stages
# behave like devices of their own.

# %%
predict("ex05/overlap")

# %%
naps = nn.Sequential(Chore(nap), Chore(nap), Chore(nap))
ones, zeros = torch.ones(6, 10), torch.zeros(6, 10)
with watch(naps, [1, 1, 1]) as calls:
    nn.functional.mse_loss(
        MyGPipe(naps, [1, 1, 1], 6, checkpoint="never")(ones), zeros
    ).backward()
workers = GPipe(naps, 3, 6, checkpoint="never", devices=["cpu"])
for _ in range(2):
    nn.functional.mse_loss(workers(ones), zeros).backward()
mine, theirs = (
    calls.measured_timeline("yours, one thread"),
    workers.timeline.with_name("GPipe, three workers"),
)
assert mine.makespan > 1.3 * theirs.makespan
ms = [1e3 * timeline.makespan for timeline in (mine, theirs)]
print(f"measured: yours {ms[0]:.0f} ms, GPipe {ms[1]:.0f} ms")
ge.compare(mine, theirs)

# %% [markdown]
# The forwards and backwards are the same; only the threads that run them differ. What
# about stages that compute? They share the cores of this computer, so expect a smaller
# gain, or none:

# %%
net = network(*large)
mine, theirs = MyGPipe(net, even, 4), GPipe(net, 3, 4, balance=even, devices=["cpu"])
times = {"yours": [], "GPipe": []}
for _ in range(4):
    for name, model in (("yours", mine), ("GPipe", theirs)):
        begin = time.perf_counter()
        loss_fn(model(x[:1000]), y[:1000]).backward()
        times[name].append(time.perf_counter() - begin)
print(
    "measured:",
    ", ".join(f"{name} {min(found) * 1e3:.0f} ms" for name, found in times.items()),
)

# %% [markdown]
# `GPipe` can do more than your wrapper: any schedule (`pipe.step`), early recompute, a
# device per stage, tuples of tensors, [skip
# connections](../docs/glossary.md#skip-connection), and BatchNorm that is not counted
# twice. If a layer fails, the error names the stage and the micro-batch. The algorithm
# is the one that you wrote.

# %%
progress()

# %% [markdown]
# **Where next:** [exercise 06](exercise_06_partition.ipynb) finds the best balance
# instead of guessing it;
# [lesson 07](../notebooks/07_batchnorm_dropout_and_randomness.ipynb) says which layers
# notice that there is a pipeline.
