"""Exercise 05, first part: cutting a network into stages."""

from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import accumulate, islice
from typing import NamedTuple

from torch import nn

from tests.solutions.bank import Bank

BANK = Bank("ex05/stages")


def fits(net, balance):
    if not balance or min(balance) < 1 or sum(balance) != len(net):
        raise ValueError("balance does not fit")


def loop(net, balance):
    fits(net, balance)
    stages, start = [], 0
    for count in balance:
        stages.append(net[start : start + count])
        start += count
    return stages


@BANK.wrong("repeated-layer")
def asks_for_children(net, balance):
    fits(net, balance)
    children = iter(net.children())
    return [nn.Sequential(*islice(children, count)) for count in balance]


@BANK.wrong("repeated-not-counted")
def counts_the_children(net, balance):
    layers = [layer for _, layer in net.named_children()]
    fits(layers, balance)
    queue = iter(layers)
    return [nn.Sequential(*islice(queue, count)) for count in balance]


@BANK.wrong("block")
def takes_blocks_apart(net, balance):
    fits(net, balance)
    layers = iter(module for module in net.modules() if not list(module.children()))
    return [nn.Sequential(*islice(layers, count)) for count in balance]


def flat(net):
    for layer in net:
        yield from flat(layer) if isinstance(layer, nn.Sequential) else [layer]


@BANK.wrong("block")
def counts_what_is_in_blocks(net, balance):
    layers = list(flat(net))
    fits(layers, balance)
    queue = iter(layers)
    return [nn.Sequential(*islice(queue, count)) for count in balance]


@BANK.right
def by_index_into_a_module_list(net, balance):
    fits(net, balance)
    stages, place = nn.ModuleList(), 0
    for count in balance:
        stages.append(nn.Sequential(*[net[i] for i in range(place, place + count)]))
        place += count
    return stages


@BANK.right
def recursive(net, balance):
    if not balance:
        if len(net):
            raise ValueError("layers are left")
        raise ValueError("no stages")
    first, *rest = balance
    if first < 1 or first > len(net):
        raise ValueError("does not fit")
    if not rest and first == len(net):
        return [net[:first]]
    return [net[:first], *recursive(net[first:], rest)]


@BANK.right
def with_a_queue(net, balance):
    layers = list(net)
    stages = []
    for count in balance:
        if count < 1 or count > len(layers):
            raise ValueError(f"{count} layers, {len(layers)} left")
        stages.append(nn.Sequential(*layers[:count]))
        del layers[:count]
    if layers or not stages:
        raise ValueError("the balance does not use all layers")
    return stages


@dataclass
class Cursor:
    """A place in the network, up to which layers have been taken."""

    net: nn.Sequential
    place: int = 0

    @property
    def left(self):
        return len(self.net) - self.place

    def take(self, count):
        if not 1 <= count <= self.left:
            raise ValueError(f"a stage of {count} layers, where {self.left} are left")
        self.place += count
        return self.net[self.place - count : self.place]


@BANK.right
def with_a_cursor(net, balance):
    cursor = Cursor(net)
    stages = [cursor.take(count) for count in balance]
    if cursor.left or not stages:
        raise ValueError(f"{cursor.left} layers are left over")
    return stages


class Fit(Enum):
    EXACT = "fits"
    EMPTY = "has a stage without layers"
    OTHER = "has another number of layers than the network"

    @classmethod
    def of(cls, balance, L):
        if any(count < 1 for count in balance):
            return cls.EMPTY
        return cls.EXACT if balance and sum(balance) == L else cls.OTHER


class Places(NamedTuple):
    first: int
    end: int


@BANK.right
def places_of_a_balance_that_fits(net, balance):
    fit = Fit.of(balance, len(net))
    if fit is not Fit.EXACT:
        raise ValueError(f"the balance {fit.value}")
    places = [Places(end - count, end) for count, end in zip(balance, accumulate(balance), strict=True)]
    return [nn.Sequential(*(net[i] for i in range(place.first, place.end))) for place in places]


class StartsAnew(nn.Sequential):
    """A stage that gives its device a graph of its own."""

    def forward(self, x):
        return super().forward(x.detach())


@BANK.wrong("other-gradient")
def detaches_at_boundaries(net, balance):
    return [StartsAnew(*stage) for stage in loop(net, balance)]


class Named(nn.Module):
    """A stage that knows its number; with a slip of the pen, so that PyTorch finds no forward."""

    def __init__(self, number, layers):
        super().__init__()
        self.number, self.layers = number, layers

    def foward(self, x):
        return self.layers(x)


@BANK.wrong("not-callable")
def misspells_forward(net, balance):
    return [Named(k, stage) for k, stage in enumerate(loop(net, balance))]


KEPT = {}
of_the_loop = partial(BANK.changed, of=loop)
FITS, SLICE, RETURN = "fits(net, balance)", "net[start : start + count]", "return stages"
of_the_loop(
    "copied", "copies_the_layers", SLICE, f"deepcopy({SLICE})", FITS, "from copy import deepcopy\n\n    " + FITS
)
of_the_loop(
    "places",
    "counts_as_places_of_cuts",
    RETURN,
    "places = [0, *balance, len(net)]\n    return [net[a:b] for a, b in zip(places, places[1:], strict=False)]",
)
of_the_loop("not-callable", "gives_lists_of_layers", SLICE, f"list({SLICE})")
of_the_loop("not-callable", "gives_module_lists", SLICE, f"nn.ModuleList({SLICE})")
of_the_loop("not-a-module", "gives_functions", SLICE, f"{SLICE}.forward")
of_the_loop("not-a-list", "gives_one_stage", RETURN, "return stages[0].forward")
of_the_loop("training-changed", "in_evaluation", SLICE, f"{SLICE}.eval()")
of_the_loop("net-changed", "registers_the_stages", RETURN, "[net.append(stage) for stage in stages]\n    return stages")
of_the_loop("net-changed", "leaves_a_note", RETURN, "net.stages = stages\n    return stages")
of_the_loop("layer-mode", "the_same_mode_for_all_layers", SLICE, f"{SLICE}.train(net.training)")
of_the_loop("unfrozen", "trains_all", SLICE, f"{SLICE}.requires_grad_()")
of_the_loop("remembers", "kept_under_their_balance", RETURN, "return KEPT.setdefault(tuple(balance), stages)")
of_the_loop(
    "by-name",
    "numbers_for_names",
    SLICE,
    "nn.Sequential(*(net.get_submodule(str(i)) for i in range(start, start + count)))",
)
of_the_loop(
    "other-layers",
    "sorts_the_names",
    "stages, start = [], 0",
    "stages, start, layers = [], 0, [net.get_submodule(name) for name in sorted(vars(net)['_modules'])]",
    SLICE,
    "nn.Sequential(*layers[start : start + count])",
)
of_the_loop("lost", "stops_one_early", SLICE, "net[start : start + count - 1]")
of_the_loop("overlap", "includes_the_end", SLICE, "net[start : start + count + 1]")
of_the_loop("places", "takes_the_balance_for_positions", SLICE, "net[start:count]", "start += count", "start = count")
of_the_loop(
    "other-layers",
    "pops_from_the_end",
    "stages, start = [], 0",
    "stages, start, layers = [], 0, list(net)",
    SLICE,
    "nn.Sequential(*(layers.pop() for _ in range(count)))",
)
EVEN = "K, L = len(balance), len(net)\n    balance = [L * (k + 1) // K - L * k // K for k in range(K)]"
of_the_loop("other-sizes", "cuts_evenly", FITS, f"{FITS}\n    {EVEN}")
of_the_loop("other-number", "a_stage_for_each_layer", RETURN, "return [nn.Sequential(layer) for layer in net]")
of_the_loop("empty-rows", "begins_with_an_empty_one", "stages, start = []", "stages, start = [nn.Sequential()]")
of_the_loop("backwards", "from_the_end", RETURN, "return stages[::-1]")
of_the_loop("other-order", "sorts_the_counts", "for count in balance:", "for count in sorted(balance):")
of_the_loop("other-order", "largest_stage_first", FITS, f"{FITS}\n    balance = sorted(balance, reverse=True)")
of_the_loop("net-emptied", "takes_the_layers_out", SLICE, "nn.Sequential(*(net.pop(0) for _ in range(count)))")
of_the_loop(
    "balance-changed", "uses_the_balance_up", "for count in balance:", "while balance:\n        count = balance.pop(0)"
)
of_the_loop("too-few-layers", "never_looks", FITS, "")
LAST = "if list(accumulate(balance))[-1] != len(net) or min(balance) < 1:\n        raise ValueError(balance)"
of_the_loop("too-few-layers", "looks_at_an_end_that_is_not_there", FITS, LAST)
of_the_loop(
    "too-many-layers", "looks_for_too_few_only", FITS, "if sum(balance) < len(net):\n        fits(net, balance)"
)
of_the_loop("empty-stage", "looks_at_the_sum_only", FITS, "fits(net, [sum(balance)])")
