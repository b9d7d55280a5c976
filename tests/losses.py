"""Losses that do not separate over samples, or average over something else, and losses that only look like these."""

import torch
from torch import nn
from torch.nn import functional as F

N, M = 16, 4

SOURCE = torch.Generator().manual_seed(3)
NUMBERS = torch.randn(N, 4, generator=SOURCE).double()
CLASSES = torch.randint(0, 4, (N,), generator=SOURCE)
PADDED = torch.randint(1, 4, (N,), generator=SOURCE).index_fill(0, torch.arange(3), 0)
WEIGHTS = torch.tensor([1.0, 2, 3, 4]).double()


def halves(output, y):
    chosen, rejected = output.chunk(2)
    return -F.logsigmoid((chosen - rejected).sum(-1)).mean()


def next_to_each_other(output, y):
    return -F.logsigmoid((output[0::2] - output[1::2]).sum(-1)).mean()


def contrast(output, y):
    return F.cross_entropy(F.normalize(output) @ F.normalize(y).T, torch.arange(len(y)))


def ranking(output, y):
    order = (y[:, 0, None] - y[None, :, 0]).sign()
    return (1 - (output[:, 0, None] - output[None, :, 0]) * order).relu().mean()


def correlation(output, y):
    a, b = output - output.mean(0), y - y.mean(0)
    return -(a * b).sum() / (a.norm() * b.norm())


def redundancy(output, y):
    normed = (output - output.mean(0)) / output.std(0)
    return (normed.T @ normed / len(output) - torch.eye(4)).square().sum()


def dice(output, y):
    p, q = output.sigmoid(), y.sigmoid()
    return 1 - 2 * (p * q).sum() / (p.sum() + q.sum())


def masked_mean(output, y):
    mask = y != 0
    return (F.cross_entropy(output, y, reduction="none") * mask).sum() / mask.sum()


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.ce = nn.CrossEntropyLoss(ignore_index=0)

    def forward(self, output, y):
        return self.ce(output, y)


APART = {
    "pairs cut in halves": (halves, NUMBERS),
    "a contrast with all others": (contrast, NUMBERS),
    "a ranking over the batch": (ranking, NUMBERS),
    "the root of a mean": (lambda output, y: F.mse_loss(output, y).sqrt(), NUMBERS),
    "a correlation": (correlation, NUMBERS),
    "redundancy": (redundancy, NUMBERS),
    "dice": (dice, NUMBERS),
    "softmax over samples": (lambda output, y: -(y.softmax(0) * output.log_softmax(0)).sum(), NUMBERS),
    "a variance": (lambda output, y: F.mse_loss(output, y) + output.var(0).mean(), NUMBERS),
    "a masked mean": (masked_mean, PADDED),
}
"""Losses that a comparison of two micro-batches tells."""

UNEVEN = {
    "padded targets": (lambda output, y: F.cross_entropy(output, y, ignore_index=0), PADDED),
    "class weights": (lambda output, y: F.cross_entropy(output, y, WEIGHTS), CLASSES),
    "both": (lambda output, y: F.cross_entropy(output, y, weight=WEIGHTS, ignore_index=0), PADDED),
    "nll_loss": (lambda output, y: F.nll_loss(output.log_softmax(1), y, ignore_index=0), PADDED),
    "a module of its own": (Own(), PADDED),
    "beside another": (lambda output, y: output.square().mean() + F.cross_entropy(output, y, ignore_index=0), PADDED),
    "of sequences": (
        lambda output, y: F.cross_entropy(output.view(-1, 2, 2).transpose(1, 2), y, ignore_index=0),
        PADDED[:, None].expand(-1, 2).clamp(max=1),
    ),
}
"""Cross entropy inside of a function."""

ALIKE = {
    "mean squares": (F.mse_loss, NUMBERS),
    "cross entropy": (nn.CrossEntropyLoss(), CLASSES),
    "cross entropy in a function": (lambda output, y: F.cross_entropy(output, y, label_smoothing=0.1), CLASSES),
    "cross entropy that ignores": (nn.CrossEntropyLoss(ignore_index=0), PADDED),
    "probabilities": (lambda output, y: F.cross_entropy(output, y.softmax(1)), NUMBERS),
    "pairs next to each other": (next_to_each_other, NUMBERS),
    "noise": (lambda output, y: F.mse_loss(output + torch.randn_like(output), y), NUMBERS),
    "almost nothing": (lambda output, y: (output - output.detach()).mean() * 1e-3, NUMBERS),
    "in 16 bits": (lambda output, y: (output.bfloat16() - y.bfloat16()).abs().exp().mean(), NUMBERS),
}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).double()
