"""Weights that stages on several ranks hold, as where embedding and head share one: each rank has a copy.

The copies stay equal to the last bit, because all get the very same gradient: the first of the ranks adds up what the
others send it, and sends them the sum. If each added up for itself, they could do so in different orders and round
differently. The rest is up to each rank's optimizer: in steps 1, 2, 4, 8, ... we compare whether the copies are equal,
and are stepped alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpipe_edu.pytorch.weights import add

from .agreement import digest
from .gradient_message import pack, unpack
from .optimizer_checks import Settings
from .ranks import gather


def first_names(layers: Iterable[tuple[str, nn.Module]]) -> dict[Tensor, str]:
    """The name of each weight and each buffer in the whole network; one that several layers hold has the name in the
    first of them."""
    names: dict[Tensor, str] = {}
    for name, layer in layers:
        for inner, tensor in chain(layer.named_parameters(name), layer.named_buffers(name)):
            names.setdefault(tensor, inner)
    return names


def holders(stages: Sequence[Sequence[nn.Module]], rank_of_stage: Mapping[int, int]) -> dict[Tensor, list[int]]:
    """For each weight the ranks that hold it, in the order of their stages."""
    found: dict[Tensor, list[int]] = {}
    for k, layers in enumerate(stages):
        # Asked in each step, of a whole network where one is kept: `parameters()` takes twice as long.
        for module in (module for layer in layers for module in layer.modules()):
            for weight in module._parameters.values():
                ranks = [] if weight is None else found.setdefault(weight, [])
                if rank_of_stage[k] not in ranks:
                    ranks.append(rank_of_stage[k])
    return found


class _Copy(NamedTuple):
    """A rank's copy of a weight. numbers: a digest. settings: with which an optimizer has stepped it, if any has."""

    rank: int
    numbers: str
    settings: Settings | None

    def differs(self, other: _Copy) -> str:
        """How the other one differs, or will, as a clause; "" if it does not."""
        if self.settings and other.settings and self.settings.values != other.settings.values:
            names = {**self.settings.values, **other.settings.values}
            apart = [n for n in names if self.settings.values.get(n) != other.settings.values.get(n)]
            apart = apart[:1] if "optimizer" in apart else apart  # with another one, all may differ
            ways = [f"{', '.join(map(one.shown, apart))} on rank {one.rank}" for one in (self, other)]
            return f"and step them with other settings, so that they drift apart: {'; '.join(ways)}"
        if self.numbers == other.numbers:
            return ""
        idle = [one.rank for one in (self, other) if one.settings is None]
        why = f": no optimizer of rank {idle[0]} steps it" if len(idle) == 1 else ""
        return f"and their numbers differ by now{why}"

    def shown(self, name: str) -> str:
        """A setting, and in which group of the optimizer it is."""
        place, values = self.settings or Settings(0, {})
        return f"{name}={values.get(name)} in group {place}"


class Ties:
    """What this rank shares with other ranks of `group`.

    held: of the whole network, for each weight all ranks that hold it, in one order on all ranks: a message has the
    gradients in this order, and no names. names: of the weights.
    """

    def __init__(self, held: Mapping[Tensor, Sequence[int]], names: Mapping[Tensor, str], group: Any) -> None:
        self._group, self._rank = group, dist.get_rank(group)
        self.anywhere = any(len(ranks) > 1 for ranks in held.values())
        """Whether any two ranks share a weight, perhaps none of them this one."""
        self._held = {weight: tuple(ranks) for weight, ranks in held.items() if len(ranks) > 1 and self._rank in ranks}
        self._names = {weight: names[weight] for weight in self._held}
        self._compared: dict[str, bool] = {}
        """By a weight's name, as last compared: whether all ranks train it, or none does."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def check(self, held: Mapping[Tensor, Sequence[int]]) -> None:
        """Raises ValueError if ranks share other weights than when this was made. held: as they are held now."""
        for weight, ranks in self._held.items():
            if self._rank not in held.get(weight, ()):
                raise ValueError(
                    f"ranks {', '.join(map(str, ranks))} hold the weight {self._names[weight]!r}, a copy each, and "
                    f"another was put in its place on rank {self._rank}; change its numbers, under torch.no_grad(), or "
                    "make another Pipeline of the net"
                )
        for weight, now in held.items():
            if self._rank in now and not set(now) <= {self._rank, *self._held.get(weight, ())}:
                raise ValueError(
                    f"layers of the ranks {', '.join(map(str, now))} hold one weight now, and did not when the "
                    "Pipeline was made, so each rank would train a copy of its own; tie layers before Pipeline(...)"
                )

    @property
    def changed(self) -> bool:
        """Whether shared weights were frozen, or are trained again, since `compare`."""
        return self._trained() != self._compared

    def compare(self) -> None:
        """All ranks call this. Raises ValueError, on all, for a weight that some train and others do not."""
        first: dict[str, tuple[int, bool]] = {}
        for rank, trained in enumerate(gather(self._trained(), self._group)):
            for name, trains in trained.items():
                other, before = first.setdefault(name, (rank, trains))
                if trains != before:
                    frozen, training = (other, rank) if trains else (rank, other)
                    raise ValueError(
                        f"the weight {name!r} is frozen on rank {frozen} and trains on rank {training}, and each has a "
                        "copy of it; do the same on both, by its name in pipeline.named_parameters()"
                    )
        self._compared = self._trained()

    def compare_copies(self, settings: Mapping[Tensor, Settings]) -> None:
        """All ranks call this, with how their optimizers have stepped weights. Raises ValueError, on all, for copies
        of a weight that differ, or will."""
        mine = {name: _Copy(self._rank, digest(weight), settings.get(weight)) for weight, name in self._names.items()}
        first: dict[str, _Copy] = {}
        for copies in gather(mine, self._group):
            for name, copy in copies.items():
                if found := first.setdefault(name, copy).differs(copy):
                    raise ValueError(
                        f"ranks {first[name].rank} and {copy.rank} have a copy each of the weight {name!r}, {found}. "
                        "Do the same with both, by the name in pipeline.named_parameters(), which is one on all ranks, "
                        "and not by the layer that has the weight"
                    )

    def _trained(self) -> dict[str, bool]:
        return {name: weight.requires_grad for weight, name in self._names.items()}

    def copies(self, weight: Tensor) -> int:
        """How many ranks of the pipeline hold `weight`."""
        return len(self._held.get(weight, (0,)))

    def counts_here(self, weight: Tensor) -> bool:
        """Whether this is the first rank that holds `weight`: what is counted once is counted there."""
        return self._held.get(weight, (self._rank,))[0] == self._rank

    def collect(self, weights: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Where a weight counts, its gradient becomes that of all ranks; elsewhere it becomes None."""
        gradients = dict(zip(weights, found, strict=True))
        for first, other, tied in self._messages(weights):
            if self._rank == other:
                dist.send(pack(tied, [gradients[weight] for weight in tied]), group=self._group, group_dst=first)
                gradients.update(dict.fromkeys(tied))
            else:
                theirs = self._receive(tied, other)
                gradients.update({weight: add(gradients[weight], theirs[weight]) for weight in tied})
        return [gradients[weight] for weight in weights]

    def spread(self, weights: Sequence[Tensor], found: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The gradients that `collect` has brought together, given to all ranks that hold the weight."""
        gradients = dict(zip(weights, found, strict=True))
        for first, other, tied in self._messages(weights):
            if self._rank == first:
                dist.send(pack(tied, [gradients[weight] for weight in tied]), group=self._group, group_dst=other)
            else:
                gradients.update(self._receive(tied, first))
        return [gradients[weight] for weight in weights]

    def _messages(self, weights: Iterable[Tensor]) -> list[tuple[int, int, list[Tensor]]]:
        """The pairs of ranks that include this one, and the weights they share, which travel in one message.

        The order is the same everywhere: of all pairs that are left, the first one has both ends free.
        """
        pairs: dict[tuple[int, int], list[Tensor]] = {}
        given = set(weights)
        for weight, (first, *others) in self._held.items():
            for other in others:
                if weight in given and self._rank in (first, other):
                    pairs.setdefault((first, other), []).append(weight)
        return [(*pair, tied) for pair, tied in sorted(pairs.items(), key=lambda entry: entry[0])]

    def _receive(self, tied: Sequence[Tensor], rank: int) -> dict[Tensor, Tensor | None]:
        message = torch.empty_like(pack(tied, [None] * len(tied)))
        dist.recv(message, group=self._group, group_src=rank)
        return dict(zip(tied, unpack(tied, message), strict=True))
