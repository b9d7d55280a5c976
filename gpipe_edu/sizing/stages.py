"""What every stage of a cut costs for one micro-batch, in seconds and in bytes on one device."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from gpipe_edu.split import balance_by_cost

from . import costs
from .job import Job
from .model import LayerSize, Routed


class Group(NamedTuple):
    """Devices that work on one micro-batch in one stage together."""

    tensor: int = 1  # share every layer
    sequence: bool = True  # these also cut the sequence where layers work on each token alone
    context: int = 1  # cut every sequence, attention and all


class ExpertGroup(NamedTuple):
    """Devices that have a layer's routed experts among them, folded onto those that share all else (MoE Parallel
    Folding, arXiv 2504.14960): `ranks` times `tensor` of the replicas' and the groups' devices, next to each other."""

    ranks: int = 1  # have different experts
    tensor: int = 1  # share every expert
    hide: str = "none"  # what hides the exchange of tokens
    once: bool = False  # whether a token passes to another node once, whatever experts it has there


HIDES: Final = {
    "none": "nothing",
    "shared": "the work of experts that every token goes to",
    "pairs": "the other micro-batch of a forward and a backward that run together (DeepSeek-V3, arXiv 2412.19437)",
}
"""What may hide the exchange of tokens with experts, no more of it than fits."""


class LayerCosts(NamedTuple):
    """A layer's forward for one micro-batch, in seconds, and what it keeps, in bytes on one device."""

    products: float
    traffic: float  # with the fixed cost of a layer
    messages: float  # within the group
    backward_messages: float
    scores_products: float  # what recomputes the attention scores
    scores_traffic: float
    entering: float  # its input
    stored: float
    scores: float  # of that, the attention scores
    parameters: float
    tied: float  # those of the first layer that it uses as well
    weightless: float  # of `products`, those of two activations
    experts: float = 0.0  # parameters of routed experts, which are in no `parameters`
    exposed: float = 0.0  # of `messages`, those with experts, as many in a backward
    hidden: float = 0.0  # seconds of messages with experts that work hides

    @property
    def forward(self) -> float:
        """Seconds of a forward."""
        return self.products + self.traffic + self.messages

    @property
    def backward(self) -> float:
        """Seconds of a backward, without recompute: two products for each of the forward's, and twice its traffic."""
        return 2 * (self.products + self.traffic) + self.backward_messages

    @property
    def weights_backward(self) -> float:
        """Seconds of what a schedule that splits the backward calls W: one product for each of the forward's that has
        weights, half of the traffic, and half of the messages, since it gathers its input again. Attention has no
        weights, so the gradients of its products belong to I."""
        return self.products - self.weightless + self.traffic + self.backward_messages / 2


class Stages(NamedTuple):
    """One value per stage: sums over its layers, and the most that one of them has."""

    balance: tuple[int, ...]
    total: tuple[LayerCosts, ...]
    largest: tuple[LayerCosts, ...]
    boundaries: tuple[float, ...]  # bytes of the input
    accumulation: tuple[float, ...]  # seconds
    sent: float  # bytes that each device of a group sends over the widest cut
    forward_work: float  # seconds of all stages
    backward_work: float  # without what is recomputed


class Counter:
    """Counts stages for the plans of one job: each cut and each size of micro-batch once."""

    def __init__(self, job: Job) -> None:
        self.job = job.check()
        self._layers: dict[tuple[int, Group, ExpertGroup], list[LayerCosts]] = {}
        self._cuts: dict[tuple[int, int, Group, ExpertGroup], tuple[int, ...]] = {}
        self._stages: dict[tuple[int, Group, ExpertGroup, tuple[int, ...]], Stages] = {}

    def stages(
        self,
        samples: int,
        count: int,
        group: Group,
        balance: tuple[int, ...] | None = None,
        experts: ExpertGroup = ExpertGroup(),  # noqa: B008 (it can't change)
    ) -> Stages:
        """The `count` stages with `balance` layers each, for micro-batches of so many samples; without it, the stages
        whose slowest is as fast as can be."""
        key = samples, group, experts, balance or self._cut(samples, count, group, experts)
        if key not in self._stages:
            self._stages[key] = self._count(*key)
        return self._stages[key]

    def _count(self, samples: int, group: Group, experts: ExpertGroup, balance: tuple[int, ...]) -> Stages:
        layers = self._costs(samples, group, experts)
        stages = [layers[start:end] for start, end in pairwise([0, *accumulate(balance)])]
        sums = [LayerCosts(*map(sum, zip(*stage, strict=True))) for stage in stages]
        # A stage that uses weights of the first one has a copy of them.
        total = (sums[0], *(stage._replace(parameters=stage.parameters + stage.tied) for stage in sums[1:]))
        widest = max((stage[0].entering for stage in stages[1:]), default=0.0)
        held = [stage.parameters + stage.tied + stage.experts for stage in sums]
        accumulation = tuple(costs.accumulate(each, self.job.machine) for each in held)
        return Stages(
            balance,
            total,
            tuple(_largest(stage) for stage in stages),
            tuple(stage[0].entering for stage in stages),
            accumulation,
            widest if group.sequence else widest / group.tensor,
            sum(stage.forward for stage in total),
            sum(stage.backward for stage in total) + sum(accumulation),
        )

    def _cut(self, samples: int, count: int, group: Group, experts: ExpertGroup) -> tuple[int, ...]:
        """The layers of each stage. Every size of micro-batch has the same cut, unless something costs the same for all
        sizes, or more for few tokens."""
        key = samples if self.job.machine.overhead or self.job.model.routed else 1, count, group, experts
        if key not in self._cuts:
            self._cuts[key] = balance_by_cost(
                [layer.forward + layer.backward for layer in self._costs(key[0], group, experts)], count
            )
        return self._cuts[key]

    def _costs(self, samples: int, group: Group, experts: ExpertGroup) -> list[LayerCosts]:
        key = samples, group, experts
        if key not in self._layers:
            model, known = self.job.model, {}
            found = []
            for layer, entering in zip(
                model.layers, (model.inputs, *(one.output for one in model.layers)), strict=False
            ):
                shape = *layer[1:], entering  # blocks differ in their names alone
                if shape not in known:
                    known[shape] = _layer(self.job, layer, entering, samples, group, experts)
                found.append(known[shape])
            self._layers[key] = found
        return self._layers[key]


def _largest(layers: list[LayerCosts]) -> LayerCosts:
    most = LayerCosts(*map(max, zip(*layers, strict=True)))
    return most._replace(parameters=max(layer.parameters + layer.tied for layer in layers))


def _layer(job: Job, layer: LayerSize, entering: int, samples: int, group: Group, experts: ExpertGroup) -> LayerCosts:
    if layer.routed is not None:
        rest = _layer(job, _without(layer, layer.routed), entering, samples, group, experts)
        return _with_experts(rest, job, layer.routed, samples / group.context / group.tensor, experts)
    machine, tensor = job.machine, group.tensor
    here = samples / group.context  # samples' worth of tokens
    moved, stored = costs.divide(layer, tensor, group.sequence)
    scores = layer.scores / tensor
    gathered = costs.context_messages(samples * layer.keys / tensor * job.activation, group.context, tensor, machine)
    reduced = costs.tensor_messages(here * layer.shared * job.activation, tensor, machine)
    return LayerCosts(
        products=costs.compute(here * layer.work / tensor, machine),
        traffic=costs.traffic(here * moved, here * scores, job.activation, machine) + machine.overhead,
        messages=reduced + gathered,
        backward_messages=reduced + 2 * gathered,
        scores_products=costs.compute(here * layer.scores_work / tensor, machine),
        scores_traffic=costs.traffic(0, here * scores, job.activation, machine),
        entering=here * entering * job.activation / (tensor if group.sequence else 1),
        stored=here * costs.stored_bytes(layer, stored, job.activation),
        scores=here * scores * job.activation,
        parameters=layer.parameters / tensor,
        tied=layer.tied / tensor,
        weightless=costs.compute(here * layer.weightless / tensor, machine),
    )


def _without(layer: LayerSize, routed: Routed) -> LayerSize:
    """The layer without its routed experts."""
    return layer._replace(
        parameters=layer.parameters - routed.parameters,
        work=layer.work - routed.work,
        stored=layer.stored - routed.stored,
        moved=layer.moved - routed.moved,
        routed=None,
    )


def _with_experts(rest: LayerCosts, job: Job, routed: Routed, mine: float, group: ExpertGroup) -> LayerCosts:
    """The layer with its routed experts. mine: samples' worth of tokens that each device sends; as many come to it, or
    `imbalance` times as many to the one that gets most, for which all wait."""
    machine, most = job.machine, mine * job.imbalance
    copies = mine * job.model.tokens * routed.top * group.ranks * group.tensor
    products = costs.grouped(most * routed.work, copies / routed.experts, machine)
    traffic = costs.traffic(most * routed.moved, 0, job.activation, machine)
    token, apart = most * routed.sent / routed.top * job.activation, group.tensor
    # Out and back, and, where several devices share an expert, all of its tokens gathered and what it gives added up.
    sent = 2 * costs.EXCHANGE * costs.exchange(token, routed.top, group.ranks, apart, routed.nodes, group.once, machine)
    sent += 2 * machine.ring(most * routed.sent * job.activation * group.tensor, group.tensor)
    # A pair has twice the messages of a forward, and three times its work.
    work = {"none": 0.0, "shared": costs.compute(mine * routed.beside, machine)}
    work["pairs"] = 1.5 * (rest.products + rest.traffic + products + traffic)
    exposed = max(0.0, sent - work[group.hide])
    again = most * routed.again
    return rest._replace(
        products=rest.products + products,
        traffic=rest.traffic + traffic,
        messages=rest.messages + exposed,
        backward_messages=rest.backward_messages + exposed,
        # Two inputs are read, and one output is written.
        scores_traffic=rest.scores_traffic + costs.traffic(0, 1.5 * again, job.activation, machine),
        stored=rest.stored + most * routed.stored * job.activation,
        scores=rest.scores + again * job.activation,
        experts=routed.parameters / group.ranks / group.tensor,
        exposed=exposed,
        hidden=sent - exposed,
    )
