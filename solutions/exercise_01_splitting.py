# %% [markdown]
# # Exercise 01: cut a mini-batch into micro-batches
#
# **Why care?** Every device in a pipeline waits for micro-batches by number: for 0,
# then 1, and so on. If the cut loses a sample, the gradient is wrong. If the cut makes
# one piece too few, which can happen with `torch.chunk`, a device waits forever.
#
# **Difficulty** 1 of 3. **Time** 15 minutes. **You need** [lesson
# 02](../notebooks/02_splitting.ipynb) and NumPy's slices. **In the paper:** section
# 2.2, where a mini-batch is cut into M *equal* micro-batches. Here N need not be a
# multiple of M, so the sizes of micro-batches may differ by one sample: data sets
# seldom divide evenly.

# %%
import numpy as np

import gpipe_edu as ge
from gpipe_edu import reference as ref
from gpipe_edu.course import check, hint, predict, progress, solution
from gpipe_edu.data import digits
from gpipe_edu.timeline import replay

# %% [markdown]
# ## Even pieces, and why
#
# Ten samples are not divisible by four. Two ways to cut them come to mind. First guess
# whether the choice between them matters:

# %%
predict("ex01/remainder-last")


# %%
def step(sizes, name):
    def duration(op):
        return sizes[op.micro_batch] * {"F": 1, "B": 2}[op.kind]

    return replay(ge.Schedule(ge.gpipe(3, len(sizes)).rows, name=name), duration)


ge.compare(
    step([3, 3, 2, 2], "cut A: 3, 3, 2, 2"), step([2, 2, 2, 4], "cut B: 2, 2, 2, 4")
)

# %% [markdown]
# Both charts are planned, and the length of a box is proportional to the size of its
# [micro-batch](../docs/glossary.md#micro-batch). Cut B, the less even one, takes
# longer. So a cut should not only keep every sample: it should also be **even**.
#
# ## Your turn
#
# Write `split`. Its pieces hold the samples in their order, and no two pieces differ by
# more than one sample; which pieces are larger is up to you. Some examples, by size:
#
# | N | M | sizes, for instance |
# |---|---|---|
# | 12 | 4 | 3, 3, 3, 3 |
# | 10 | 4 | 3, 3, 2, 2 |
# | 5 | 4 | 2, 1, 1, 1 |
# | 3 | 5 | 1, 1, 1, 0, 0 |
# | 0 | 2 | 0, 0 |
#
# In the last two rows there are fewer samples than pieces. There are still M pieces,
# but some or all of them are empty. (`ge.split_batch` of lesson 02 does what your
# function should do, so calling `ge.split_batch` is an error here.)


# %% nbgrader={"grade": false, "grade_id": "ex01-splitting-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split(batch, M: int) -> list:
    """Cut `batch` along its first axis into exactly M pieces, in order.

    The sizes differ by at most one sample. If `batch` is a tuple, all its parts are cut
    alike, so that every sample stays with its label.

    batch: an array of shape (N, ...), or a tuple of arrays with the same N
    Returns a list of M arrays; if `batch` is a tuple, a list of M tuples of arrays. A
        tuple or a generator of the pieces is just as good.

    Small print:
    - Raises ValueError for M < 1.
    - N may be 0, and `batch` may be a slice of a larger array.
    - `batch` is not changed.
    """
    ### BEGIN SOLUTION
    if M < 1:
        raise ValueError(f"M is {M}; it must be at least 1")
    if isinstance(batch, tuple):
        return list(zip(*(split(part, M) for part in batch), strict=True))
    size, more = divmod(len(batch), M)
    pieces, start = [], 0
    for m in range(M):
        end = start + size + (m < more)
        pieces.append(batch[start:end])
        start = end
    return pieces
    ### END SOLUTION


# %% [markdown]
# Try it. These cells are yours: change them.

# %%
split(np.arange(10), 4)

# %%
images, labels = np.arange(12).reshape(6, 2), np.array([0, 1, 2, 3, 4, 5])
split((images, labels), 4)

# %% [markdown]
# ## Check
#
# `check` calls your function with inputs of its own, and shows the first thing that is
# wrong. Then it hands your pieces of real data to the training code.

# %% nbgrader={"grade": true, "grade_id": "ex01-splitting-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
check("ex01/splitting", split)

# %%
# hint("ex01/splitting")  # for a hint, remove the first #; each try unlocks one

# %% [markdown]
# ## What your function is good for
#
# These cells train on a mini-batch piece by piece, as a pipeline does. The gradient of
# each piece is weighted by its share of the samples.

# %%
x, y, _, _ = digits()
x, y = x[:50], y[:50]
layers = ref.mlp([64, 32, 10], seed=0)
_, exact = ref.train_sequential(layers, x, y)

# %%
total = [
    {name: np.zeros_like(value) for name, value in layer.items()} for layer in exact
]
for piece_x, piece_y in split((x, y), 8):
    _, grads = ref.train_sequential(layers, piece_x, piece_y)
    share = len(piece_x) / len(x)
    total = ref.accumulate_grads(
        total, [{name: share * g for name, g in layer.items()} for layer in grads]
    )

error = max(
    np.abs(a[name] - b[name]).max()
    for a, b in zip(total, exact, strict=True)
    for name in a
)
assert error < 1e-12
print(f"largest difference from one device: {error:.0e}")

# %% [markdown]
# The 50 samples were cut into 8 pieces of two sizes, and the gradient is exact.

# %%
progress()

# %% [markdown]
# **Where next:** [exercise 02](exercise_02_clock.ipynb) sends pieces like these through
# a pipeline. [Lesson 04](../notebooks/04_accumulation.ipynb) explains the factor
# `share`.
