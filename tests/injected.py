"""A layer with a loss of its own, injected in a backward, as mixtures of experts do it: by lines that a page shows."""

import re

import torch
from torch import nn


class Inject(torch.autograd.Function):
    """x as it is; the loss gets a gradient of 1 when that of x comes by."""

    @staticmethod
    def forward(ctx, x, loss):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, gradient.new_ones(())


class Penalized(nn.Module):
    """A linear layer, with a mean over its samples as another loss. text: the lines that inject `loss` into `x`."""

    def __init__(self, width, text):
        super().__init__()
        self.linear, self.text, self.samples = nn.Linear(width, width), text, None

    def forward(self, x):
        x = self.linear(x)
        loss = x.logsumexp(1).square().mean()
        names = {"self": self, "Inject": Inject, "x": x, "loss": loss}
        exec(self.text, names)
        return names["x"]


def lines(page):
    """The two lines of a page that inject a loss."""
    found = re.search(r"^ +(share = .*)\n +(x = Inject.*)\n", page.read_text(encoding="utf-8"), re.MULTILINE)
    return "\n".join(found.groups())
