"""What rounding explains: in gradients of 16-bit weights, and in weights that Adam has trained."""

import torch

from gpipe_edu.split import split_batch

HALF_A_DIGIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""By how much rounding changes a number at most, as a share of it."""


def apart_after_adam(steps, lr, eps=1e-8):
    """How far rounding alone may take weights of two runs in float64, where gradients have a norm of at most 1.

    A gradient that is 0 on paper, as that of a key's bias, which softmax does not see, is a sum that cancels to about
    one last digit of its terms. Adam divides it by itself and `eps`: each step moves the weight by lr x digit / eps.
    """
    return steps * lr * torch.finfo(torch.float64).eps / eps


def added_in(dtype, net, x, y, loss_fn, M):
    """By name, the gradients of M micro-batches, each of which plain autograd computes, added up in `dtype`."""
    names, weights = zip(*net.named_parameters(), strict=True)
    found = dict.fromkeys(names)
    for piece, target in zip(split_batch(x, M), split_batch(y, M), strict=True):
        loss = loss_fn(net(piece), target) * (len(piece) / len(x))
        for name, gradient in zip(names, torch.autograd.grad(loss, weights), strict=True):
            gradient = gradient.to(dtype)
            found[name] = gradient if found[name] is None else found[name] + gradient
    return found


def share_off(found, exact):
    """The share of numbers in `found` that are further from `exact` than rounding them once explains."""
    wrong = count = 0
    for name, gradient in found.items():
        most = exact[name].abs() * HALF_A_DIGIT[gradient.dtype] * 1.01 + 1e-7
        wrong += int(((gradient.float() - exact[name]).abs() > most).sum())
        count += gradient.numel()
    return wrong / count
