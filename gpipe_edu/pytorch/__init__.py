"""The PyTorch engine. In one screen, one op at a time on one thread, this is what it does in a step:

    from itertools import accumulate, pairwise
    import torch
    from gpipe_edu import balance_uniform, split_batch

    def step(net, x, y, loss_fn, schedule):
        K, M = schedule.stages, schedule.micro_batches
        bounds = [0, *accumulate(balance_uniform(len(net), K))]
        stages = [net[a:b] for a, b in pairwise(bounds)]              # cut_net.py
        targets, N, total = split_batch(y, M), len(x), 0.0
        arriving = {(m, 0): piece for m, piece in enumerate(split_batch(x, M))}
        inputs, outputs, gradients = {}, {}, {}                       # by micro-batch and stage
        recomputed = {(op.micro_batch, op.stage) for row in schedule.rows for op in row if op.kind in "RC"}
        for _, (kind, m, k), _ in schedule.steps:                     # all at once: mini_batch.py, workers.py
            here, last = (m, k), k == K - 1
            if kind == "F":                                           # a leaf: no graph crosses a boundary
                inputs[here] = arriving.pop(here).detach().requires_grad_(k > 0)
            if kind in "FRC":                                         # stage.py
                keeps = kind != "F" or here not in recomputed         # else only the input is kept
                with torch.set_grad_enabled(keeps):
                    output = stages[k](inputs[here])
                    if last:                                          # a mean counts its samples: losses.py
                        output = loss_fn(output, targets[m]) * len(targets[m]) / N
                if keeps:
                    outputs[here] = output
                if kind == "F" and last:
                    total += output.detach()
                elif kind == "F":
                    arriving[m, k + 1] = output                       # interpreter.py
            if kind in "BC":                                          # adds to .grad of the weights: weights.py
                outputs.pop(here).backward(gradients.pop(here, None))
                gradients[m, k - 1] = inputs.pop(here).grad           # interpreter.py
        return total

The files named do that part for real: with a thread or a CUDA stream per device (place.py), random numbers that a
recompute draws again (randomness.py), skips, any structure of values, and an error for every failure. Read
interpreter.py first, which also stops all devices when one fails, then stage.py and workers.py; gpipe.py is what a user
sees, guards.py what it refuses. Tools to study the engine are in study/.
"""

from gpipe_edu.base.needs_pytorch import pytorch_is_there

pytorch_is_there(__name__)

from .gpipe import GPipe  # noqa: E402
from .skip import Stash, Take  # noqa: E402
from .study.profile import balance_by_size, balance_by_time, profile  # noqa: E402

__all__ = ["GPipe", "Stash", "Take", "balance_by_size", "balance_by_time", "profile"]
