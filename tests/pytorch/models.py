"""Small models and the comparison with plain PyTorch, for the tests of the engine."""

import torch
from torch import nn

from gpipe_edu.pytorch import Stash, Take

LOSS = nn.CrossEntropyLoss()


def mlp(blocks=4, width=6, classes=3):
    """blocks x (Linear, Tanh), then a Linear; float64."""
    torch.manual_seed(0)
    layers = [layer for _ in range(blocks) for layer in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(width, classes)).double()


def with_skips():
    """Two crossing skips, over several stages where the model is cut often."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Linear(6, 6),
        Stash("a"),
        nn.Tanh(),
        Stash("b"),
        nn.Linear(6, 6),
        nn.Tanh(),
        Take("b", torch.add),
        nn.Linear(6, 6),
        Take("a", torch.mul),
        nn.Linear(6, 3),
    ).double()


class Split(nn.Module):
    """One tensor to a tuple of two."""

    def forward(self, x):
        return torch.tanh(x), x * 2


class Cross(nn.Module):
    """A tuple of two to a tuple of two, with weights."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, pair):
        return self.linear(pair[0]) + pair[1], pair[1]


class Join(nn.Module):
    """A tuple of two to one tensor."""

    def forward(self, pair):
        return pair[0] * pair[1]


def with_tuples():
    """Tuples over most boundaries."""
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 6), Split(), Cross(), Cross(), Join(), nn.Linear(6, 3)).double()


def with_attention():
    """Transformer layers on sequences of two tokens of 6 features, without dropout."""
    torch.manual_seed(3)
    blocks = (nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True) for _ in range(3))
    return nn.Sequential(nn.Unflatten(1, (1, 6)), *blocks, nn.Flatten(), nn.Linear(6, 3)).double()


def batch(N, seed=0):
    """N samples of 6 features and their classes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, 6, dtype=torch.float64, generator=generator), torch.randint(0, 3, (N,), generator=generator)


def assert_same(model, expected, relative=1e-10):
    """Every parameter's gradient equals the expected one; noise at 1e-14 of the largest gradient passes."""
    largest = max(w.grad.abs().max().item() for w in expected.parameters() if w.grad is not None)
    for (name, ours), theirs in zip(model.named_parameters(), expected.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None), name
        if ours.grad is not None:
            difference = (ours.grad - theirs.grad).abs().max().item()
            assert difference <= relative * theirs.grad.abs().max().item() + 1e-14 * largest, name
