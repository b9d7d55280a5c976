"""Exercise 05, first part: cutting a network into stages."""

import copy
from itertools import accumulate, islice, pairwise

from torch import nn

from tests.solutions.bank import Bank

BANK = Bank("ex05/stages")


def fits(net, balance):
    if not balance or min(balance) < 1 or sum(balance) != len(net):
        raise ValueError("balance does not fit")


@BANK.wrong("copied")
def copies_the_layers(net, balance):
    fits(net, balance)
    ends = list(accumulate(balance))
    return [copy.deepcopy(net[end - count : end]) for count, end in zip(balance, ends, strict=True)]


@BANK.wrong("not-callable")
def gives_lists_of_layers(net, balance):
    fits(net, balance)
    layers, ends = list(net), list(accumulate(balance))
    return [layers[end - count : end] for count, end in zip(balance, ends, strict=True)]


@BANK.wrong("other-sizes")
def cuts_evenly(net, balance):
    fits(net, balance)
    K, L = len(balance), len(net)
    return [net[L * k // K : L * (k + 1) // K] for k in range(K)]


@BANK.wrong("overlap")
def includes_the_end(net, balance):
    fits(net, balance)
    ends = list(accumulate(balance))
    return [net[end - count : end + 1] for count, end in zip(balance, ends, strict=True)]


@BANK.wrong("lost")
def takes_the_balance_for_positions(net, balance):
    fits(net, balance)
    bounds = [0, *balance]
    return [net[a:b] for a, b in pairwise(bounds)]


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


@BANK.wrong("training-changed")
def in_evaluation(net, balance):
    fits(net, balance)
    ends = list(accumulate(balance))
    return [net[end - count : end].eval() for count, end in zip(balance, ends, strict=True)]


@BANK.wrong("too-few-layers")
def never_looks(net, balance):
    stages, start = [], 0
    for count in balance:
        stages.append(net[start : start + count])
        start += count
    return stages


@BANK.wrong("too-many-layers")
def looks_for_too_few_only(net, balance):
    if sum(balance) < len(net):
        raise ValueError("some layers are on no stage")
    return never_looks(net, balance)


@BANK.wrong("empty-stage")
def looks_at_the_sum_only(net, balance):
    if sum(balance) != len(net):
        raise ValueError("the sum is wrong")
    return never_looks(net, balance)


@BANK.wrong("net-changed")
def takes_the_layers_out(net, balance):
    fits(net, balance)
    return [nn.Sequential(*(net.pop(0) for _ in range(count))) for count in balance]


@BANK.wrong("backwards")
def from_the_end(net, balance):
    fits(net, balance)
    ends = list(accumulate(balance))
    return [net[end - count : end] for count, end in zip(balance, ends, strict=True)][::-1]


@BANK.wrong("not-a-list")
def gives_one_stage(net, balance):
    fits(net, balance)
    return net[: balance[0]].forward


@BANK.wrong("not-a-module")
def gives_functions(net, balance):
    fits(net, balance)
    ends = list(accumulate(balance))
    return [net[end - count : end].forward for count, end in zip(balance, ends, strict=True)]


@BANK.wrong("other-number")
def a_stage_for_each_layer(net, balance):
    fits(net, balance)
    return [nn.Sequential(layer) for layer in net]


@BANK.wrong("block")
def takes_blocks_apart(net, balance):
    fits(net, balance)
    layers = iter(module for module in net.modules() if not list(module.children()))
    return [nn.Sequential(*islice(layers, count)) for count in balance]


@BANK.wrong("balance-changed")
def uses_the_balance_up(net, balance):
    fits(net, balance)
    stages, start = [], 0
    while balance:
        count = balance.pop(0)
        stages.append(net[start : start + count])
        start += count
    return stages


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
