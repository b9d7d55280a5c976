"""A Transformer block that stores its attention scores, or discards them and recomputes them in the backward.

The second is selective recompute (Korthikanti et al. 2022, arXiv 2205.05198). It is the block's own business: a
schedule says what happens to a whole stage and does not see inside it. PyTorch's fused attention never stores
scores, so this block does without it.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    """Every token looks at all tokens; x and the output have shape (samples, tokens, d).

    again: whether the scores, one number per head for every pair of tokens, are recomputed instead of stored.
    Raises ValueError if the heads can't share d evenly.
    """

    def __init__(self, d: int, heads: int, again: bool) -> None:
        super().__init__()
        if d % heads:
            raise ValueError(f"d is {d} and heads {heads}; heads must divide d")
        self.heads, self.again = heads, again
        self.look, self.mix = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def mean(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The mean of the values, weighted by the scores; nothing else in the block stores scores."""
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        seen: Tensor = scores.softmax(dim=-1) @ v
        return seen

    def forward(self, x: Tensor) -> Tensor:
        """Queries, keys and values of each head, their weighted means, and the output projection."""
        n, t, d = x.shape
        q, k, v = self.look(x).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        seen: Tensor = checkpoint(self.mean, q, k, v, use_reentrant=False) if self.again else self.mean(q, k, v)
        mixed: Tensor = self.mix(seen.transpose(1, 2).reshape(n, t, d))
        return mixed


class Block(nn.Module):
    """Attention and two linear layers, each after a norm and added to what came in."""

    def __init__(self, d: int, heads: int, again: bool) -> None:
        super().__init__()
        self.calm, self.attend = nn.LayerNorm(d), Attention(d, heads, again)
        self.calm_again = nn.LayerNorm(d)
        self.think = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor) -> Tensor:
        """Same shape as x, (samples, tokens, d)."""
        seen: Tensor = x + self.attend(self.calm(x))
        thought: Tensor = seen + self.think(self.calm_again(seen))
        return thought
