"""A net cut into stages of consecutive layers, with the same checks for one process and for several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import nn

from gpipe_edu.base.validate import whole
from gpipe_edu.split import balance_uniform

from .guards import buffers_stay_in_one_stage, not_sharded, plain_sequential


def cut(net: object, K: int, balance: Iterable[int] | None) -> list[list[nn.Module]]:
    """The layers of each of K stages, as even as possible unless `balance` has their numbers.

    Raises TypeError or ValueError for a net that does more than run its layers, for counts that don't fit it, and for
    running means that two stages would share.
    """
    if isinstance(net, nn.Module):
        not_sharded(net.modules())
    layers = layers_of(plain_sequential(net))
    counts = balance_uniform(len(layers), K) if balance is None else layer_counts(balance)
    if len(counts) != K or sum(counts) != len(layers):
        raise ValueError(
            f"balance is {tuple(counts)}, which places {sum(counts)} layers on {len(counts)} stages; net has "
            f"{len(layers)} layers, and there are to be {K} stages"
        )
    return group(layers, counts)


def layer_counts(balance: Iterable[int]) -> list[int]:
    """`balance` as a list of whole numbers. Raises TypeError or ValueError for anything else."""
    if not isinstance(balance, Iterable) or isinstance(balance, str):
        raise TypeError(f"balance is {balance!r}; it must be a list of layer counts, one per stage")
    return [whole("balance", n, 1) for n in balance]


def layers_of(net: nn.Module) -> list[nn.Module]:
    """The layers that run one after another."""
    return [layer for layer in net._modules.values() if layer is not None]


def group(layers: Sequence[nn.Module], counts: Sequence[int]) -> list[list[nn.Module]]:
    """The layers in groups of `counts`. Raises ValueError for running means that two groups would share."""
    ends = [sum(counts[: k + 1]) for k in range(len(counts))]
    groups = [list(layers[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    buffers_stay_in_one_stage(groups)
    return groups
