"""Experts that replicas divide among themselves: weights and buffers of which one replica has the only copy.

A layer sends each token to the replica that has its expert, by an all-to-all among the pipeline's `replicas`, and its
backward sends the gradients back. So an expert has the gradients of all replicas' tokens before anything is added up,
and `gradients.py` adds up only those of the other weights, of which each replica has a copy.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from torch import Tensor, nn

from .layer_building import tensors_of


class Experts:
    """The names in `net`, a replica's whole network, that match `patterns`: `name in experts` for one of them.

    patterns: of names, such as "*.experts.*", in which * stands for any letters. Raises TypeError for a single string,
    ValueError for a pattern that no weight and no buffer matches.
    """

    def __init__(self, patterns: Iterable[str], net: nn.Module) -> None:
        if isinstance(patterns, str):
            raise TypeError(f"experts is {patterns!r}; it must be a list of names or patterns: experts=[{patterns!r}]")
        self.patterns, names = tuple(patterns), [name for name, _ in tensors_of(net)]
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ValueError(
                    f"experts has {pattern!r}, which is the name of no weight and no buffer; names are "
                    f"{', '.join(names[:3]) or 'none'}{', ...' if len(names) > 3 else ''}, and * stands for any letters"
                )

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def __contains__(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def weights_of(self, layers: nn.Module, names: Mapping[Tensor, str]) -> set[Tensor]:
        """The experts' weights among those that `layers` have now. names: of weights that are named differently in the
        whole network."""
        if not self:
            return set()
        return {weight for name, weight in layers.named_parameters() if names.get(weight, name) in self}

    def without(self, net: nn.Module) -> nn.Sequential:
        """The layers of `net` that hold no expert: replicas have the same ones."""
        layers = [(name, layer) for name, layer in net._modules.items() if layer is not None]
        with_experts = {
            name for name, layer in layers if any(f"{name}.{inner}" in self for inner, _ in tensors_of(layer))
        }
        return nn.Sequential(OrderedDict(entry for entry in layers if entry[0] not in with_experts))
