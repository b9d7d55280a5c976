"""Documents of unequal lengths, packed into rows, and a net with a mixture of experts that keeps them apart by a mask.

Rows hold unequal numbers of tokens, so micro-batches do, too, and a mean over tokens is no mean of micro-batches'
means. The same net reads each document alone: what is packed must not change a loss or a gradient.
"""

import torch
from torch import nn

from tests.mixture import Mixture

LENGTHS = (6, 2, 8, 3, 3, 7, 2, 2, 2, 5)
ROW, WORDS, WIDTH = 8, 9, 6
NO_TARGET = -100
"""That of padding and of the last token of a document."""


def documents():
    source = torch.Generator().manual_seed(2)
    return [torch.randint(0, WORDS, (length,), generator=source) for length in LENGTHS]


def targets_of(document):
    """The next tokens."""
    return torch.cat([document[1:], document.new_tensor([NO_TARGET])])


def packed():
    """Tokens, the number of the document that each is of, -1 for padding, and targets; each (rows, ROW)."""
    rows = []
    for number, document in enumerate(documents()):
        if not rows or sum(map(len, rows[-1][0])) + len(document) > ROW:
            rows.append(([], [], []))
        for parts, part in zip(
            rows[-1], (document, torch.full_like(document, number), targets_of(document)), strict=True
        ):
            parts.append(part)
    return tuple(
        torch.stack([_padded(torch.cat(row[part]), empty) for row in rows])
        for part, empty in enumerate((0, -1, NO_TARGET))
    )


def _padded(row, empty):
    return torch.cat([row, row.new_full((ROW - len(row),), empty)])


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)

    def forward(self, both):
        tokens, numbers = both
        return self.table(tokens), numbers


class Attend(nn.Module):
    """Each token attends to those before it in its own document."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, both):
        x, numbers = both
        before = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        mask = (numbers[:, :, None] == numbers[:, None, :]) & before
        return x + nn.functional.scaled_dot_product_attention(*self.project(x).chunk(3, dim=2), attn_mask=mask), numbers


class MixTokens(Mixture):
    def forward(self, both):
        x, numbers = both
        return self.mix(x)[0], numbers


class Head(nn.Linear):
    """Logits in the order of cross entropy: rows, words, tokens."""

    def forward(self, both):
        return super().forward(both[0]).transpose(1, 2)


def network():
    torch.manual_seed(0)
    return nn.Sequential(Embed(), Attend(), MixTokens(WIDTH), Attend(), MixTokens(WIDTH), Head(WIDTH, WORDS)).double()


def one_by_one(net):
    """The mean loss over all targets, with each document alone in its row; gradients are in `.grad`."""
    texts = documents()
    total = sum(len(text) - 1 for text in texts)
    losses = [
        nn.functional.cross_entropy(
            net((text[None], torch.zeros_like(text)[None])), targets_of(text)[None], reduction="sum"
        )
        for text in texts
    ]
    loss = sum(losses) / total
    loss.backward()
    return float(loss.detach())


class SummedOverTokens(nn.Module):
    """The sum over a micro-batch's targets, divided by `total`, the number of those of the mini-batch."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def forward(self, logits, targets):
        return nn.functional.cross_entropy(logits, targets, reduction="sum") / self.total
