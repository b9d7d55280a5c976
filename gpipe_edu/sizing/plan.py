"""One plan of a step on paper: how the work is divided, and what is recomputed, give time and memory.

`costs.py` has the cost of each part. Here they meet, with n the samples of the largest micro-batch, N / (D M) rounded
up:

    F of a stage      products, traffic to the memory, a fixed cost per layer, and messages within its group
    B                 twice the first three, messages once more, gradients added up, and what is recomputed within it:
                      the attention scores, or every layer
    R                 F, where a whole stage is recomputed: it waits for no gradient, so it can hide in the bubble
    I, W              where a schedule splits B: W has a product for each weight, half of traffic and messages, and what
                      adds gradients up; I the rest, with all of attention, which has no weights, and what is recomputed
    pipeline          `simulate`: the same simulator that every lesson's charts come from
    replicas          an all-reduce of the gradients; ZeRO-1's two halves of it; ZeRO-2's first half in every
                      micro-batch; ZeRO-3's gathering of weights in every forward and backward as well. Work hides them
    update            what the optimizer reads and writes
    weights and state parameters * bytes per parameter; ZeRO spreads them over all devices that hold the same layers
    experts           routed tokens' products, copies and messages in F and B; parameters, gradients and state of their
                      own, which D x context x tensor / (experts x expert_tensor) devices have alike
    activations       per micro-batch in flight what `RECOMPUTES` says is kept; where a stage keeps its input alone,
                      O(N + (L/K)(N/M)) (Huang et al. 2019, 2.3)

ZeRO-3 that keeps a stage's weights together between micro-batches, as Llama 3 was trained, holds what ZeRO-2 holds;
ZeRO-2 whose gradients stay whole until the last micro-batch, as in Megatron, is ZeRO-1. Not in it: temporary buffers,
fragmentation; `Machine.reserve` leaves room for them.
"""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from operator import add, le, mul
from typing import Any, Final, NamedTuple

from gpipe_edu.base.validate import whole
from gpipe_edu.base.words import plural
from gpipe_edu.schedule import Schedule
from gpipe_edu.schedule.op import FINISHES, SENDS_GRADIENT
from gpipe_edu.schedule.recipes import RECIPES, form_of
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.timeline import Costs, Timeline, simulate
from gpipe_edu.timeline.ends import simulate_ends

from . import costs
from .job import Job
from .stages import HIDES, Counter, ExpertGroup, Group

SCHEDULES: Final = (
    *("gpipe", "1f1b", "interleaved", "breadth_first", "zero_bubble"),
    *("interleaved_zero_bubble", "zero_bubble_v", "dual_pipe_v"),
)
"""The schedules that one may plan with; the course's others recompute, or are naive. `interleaved` has combined 1F1B's
order where its pairs hide what experts exchange."""

PAIRED: Final = ("interleaved", "dual_pipe_v")
"""Those whose forwards and backwards may run in pairs."""

RECOMPUTES: Final = {
    "none": "everything is kept",
    "selective": "all but attention scores (Korthikanti et al. 2022, arXiv 2205.05198) and experts' activations",
    "full": "every layer keeps its input alone, and is recomputed within the backward (Chen et al. 2016, 1604.06174)",
    "stage": 'every stage keeps its input alone: GPipe, and checkpoint="always" in the engine',
}
"""What a micro-batch in flight keeps."""

ZERO: Final = (0, 1, 2, 3)
"""Nothing, the optimizer's state, gradients too, weights too are spread over the replicas."""


class Plan:
    """`Plan(job, D, K, M, recompute)`: one way to divide the work. Raises ValueError for more than the job has.

    D replicas of K stages, each stage on `tensor` times `context` devices; V stages of each device where the schedule
    takes any number. sequence: whether a tensor group cuts the sequence, too, between its layers' products.
    """

    def __init__(
        self,
        job: Job,
        D: int,
        K: int,
        M: int,
        recompute: str = "none",
        *,
        schedule: str = "1f1b",
        V: int | None = None,
        zero: int = 0,
        tensor: int = 1,
        sequence: bool = True,
        context: int = 1,
        experts: int = 1,
        expert_tensor: int = 1,
        hide: str = "none",
        once: bool = False,
        balance: Sequence[int] | None = None,
        counter: Counter | None = None,
    ) -> None:
        """experts: on how many devices a layer has them, each of which `expert_tensor` devices share; hide: a key of
        `HIDES`; once: whether a token passes to another node once. balance: how many layers each stage has; without it
        the slowest stage is as fast as can be. counter: what counts stages, if other plans of the same job share it."""
        counter = counter or Counter(job)
        self.job, self.recompute, self.schedule, self.zero = job, recompute, schedule, zero
        self.D, self.K, self.M = whole("D", D, 1), whole("K", K, 1), whole("M", M, 1)
        self.group = Group(whole("tensor", tensor, 1), sequence, whole("context", context, 1))
        self.experts = ExpertGroup(whole("experts", experts, 1), whole("expert_tensor", expert_tensor, 1), hide, once)
        self._check_knobs(V)
        self._check_experts()
        self.V = stages_per_device(schedule, V) if K > 1 else 1
        self.samples = -(-job.batch // (D * M))
        self._stages = counter.stages(self.samples, K * self.V, self.group, self._own_cut(balance), self.experts)
        self.balance = self._stages.balance
        self.ranks = D * context
        """Devices that hold the same weights, among which ZeRO divides what it shards."""
        self._routed = job.model.routed
        self.expert_ranks = self.ranks * tensor // (experts * expert_tensor) if self._routed else 1
        """The same of routed experts."""

    def _check_knobs(self, V: int | None) -> None:
        job, machine, (tensor, _, context) = self.job, self.job.machine, self.group
        if self.devices > machine.devices:
            groups = f" of {tensor * context} devices each" if tensor * context > 1 else ""
            raise ValueError(
                f"D is {self.D} and K is {self.K}{groups}, but there are {machine.devices} devices; {self.devices} are "
                "too many"
            )
        if job.batch < self.D * self.M:
            raise ValueError(
                f"D is {self.D} and M is {self.M}, but the mini-batch has {job.batch} samples; D M can be no more"
            )
        for name, value, known in (
            ("recompute", self.recompute, tuple(RECOMPUTES)),
            ("schedule", self.schedule, SCHEDULES),
            ("zero", self.zero, ZERO),
        ):
            if value not in known:
                raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(str, known))}")
        if V is not None and whole("V", V, 1) != stages_per_device(self.schedule, V):
            there = plural(form_of(self.schedule).stages, "stage")
            raise ValueError(f"V is {V}, but {self.schedule} has {there} on each device")
        if tensor > 1 and not any(layer.shared for layer in job.model.layers):
            raise ValueError(f"tensor is {tensor}, but no layer of {job.model.name} can be shared; use 1")
        if machine.node is not None and (machine.node % tensor or tensor > machine.node):
            raise ValueError(
                f"tensor is {tensor}, but a node has {machine.node} devices; a tensor group must not straddle nodes, "
                "so use a divisor"
            )
        if context > 1 and context * tensor > job.model.tokens:
            raise ValueError(f"context is {context}, but a sample has {job.model.tokens} tokens")

    def _check_experts(self) -> None:
        (ranks, tensor, hide, _), machine = self.experts, self.job.machine
        found = [layer.routed.experts for layer in self.job.model.layers if layer.routed]
        if self.experts != ExpertGroup() and not found:
            raise ValueError(f"{self.job.model.name} has no routed experts; experts, hide and once are theirs")
        shared = self.D * self.group.tensor * self.group.context
        if shared % (ranks * tensor):
            raise ValueError(
                f"experts is {ranks} and expert_tensor {tensor}, but {ranks * tensor} does not divide the {shared} "
                "devices of all replicas that have a stage"
            )
        if any(count % ranks for count in found):
            raise ValueError(f"experts is {ranks}, which does not divide the {found[0]} experts of a layer")
        if machine.node is not None and machine.node % tensor:
            raise ValueError(f"expert_tensor is {tensor}, but a node has {machine.node} devices; use a divisor")
        if found and self.group.tensor > 1 and not self.group.sequence:
            raise ValueError("experts in a tensor group need the sequence cut, or all of it routes the same tokens")
        if hide not in HIDES:
            raise ValueError(f"hide is {hide!r}; it must be one of {', '.join(HIDES)}")
        if hide == "shared" and not any(layer.routed.beside for layer in self.job.model.layers if layer.routed):
            raise ValueError(
                f"hide is 'shared', but {self.job.model.name} has no experts that every token goes to; use 'none' or "
                "'pairs'"
            )
        if hide == "pairs" and self.recompute in ("full", "stage"):
            raise ValueError(f"hide is 'pairs', without recompute of layers, but recompute is {self.recompute!r}")
        if hide == "pairs" and self.K > 1 and self.schedule not in PAIRED:
            raise ValueError(
                f"hide is 'pairs', but {self.schedule} has no forward and backward of two micro-batches to pair; use "
                f"{' or '.join(PAIRED)}"
            )

    def _own_cut(self, balance: Sequence[int] | None) -> tuple[int, ...] | None:
        if balance is None:
            return None
        stages, layers = self.K * self.V, len(self.job.model.layers)
        own = tuple(whole(f"balance[{stage}]", count, 1) for stage, count in enumerate(balance))
        if len(own) != stages or sum(own) != layers:
            raise ValueError(
                f"balance has {plural(len(own), 'stage')} with {plural(sum(own), 'layer')} in all; it must have "
                f"{plural(stages, 'stage')} with {layers}"
            )
        return own

    @property
    def devices(self) -> int:
        """How many devices it takes."""
        return self.D * self.K * self.group.tensor * self.group.context

    @property
    def recipe(self) -> str:
        """Its devices' schedule. A single device does each micro-batch's B right after its F, whatever was asked."""
        return self.schedule if self.K > 1 else "1f1b"

    @property
    def _order(self) -> str:
        """The recipe of its ops' order."""
        combined = self.experts.hide == "pairs" and not form_of(self.recipe).pairs
        return "combined_1f1b" if combined else self.recipe

    @property
    def knobs(self) -> str:
        """The choices, in words; those that change nothing are left out."""
        tensor, sequence, context = self.group
        words = [f"D={self.D}, K={self.K}, M={self.M}"]
        words += [f"tensor={tensor}" + ("" if sequence else " without sequence parallelism")] if tensor > 1 else []
        words += [f"context={context}"] if context > 1 else []
        ranks, shared, hide, once = self.experts
        words += [f"experts={ranks}"] if ranks > 1 else []
        words += [f"expert_tensor={shared}"] if shared > 1 else []
        words += [f"hide={hide}"] if hide != "none" else []
        words += ["once"] if once else []
        words += [f"ZeRO-{self.zero}"] if self.zero else []
        if self.K > 1:
            words.append(self.schedule + (f" V={self.V}" if form_of(self.schedule).takes_V else ""))
        return ", ".join([*words, f"recompute {self.recompute}"])

    @property
    def costs(self) -> Costs:
        """Seconds of every stage's ops, and of messages between stages."""
        ops: dict[str, Any] = {kind: self._seconds(kind) for kind in "FBRIW"}
        return Costs(**ops, send=self.job.machine.latency, link=self._link, unit="s")

    def _seconds(self, kind: str) -> tuple[float, ...]:
        """Seconds of an op of this kind, per stage."""
        added, shards = self._stages.accumulation, self._shards
        if kind == "F":
            return _sums(self._forward, shards.forward) if shards else self._forward
        if kind == "R":
            return self._forward
        if kind == "B":
            return _sums(self._backward, self._again, shards.backward) if shards else _sums(self._backward, self._again)
        weights = _sums([stage.weights_backward for stage in self._stages.total], added)
        if kind == "I":
            return _sums(self._backward, [-seconds for seconds in weights], self._again)
        return _sums(weights, shards.backward) if shards else weights

    @property
    def _link(self) -> float:
        return costs.boundary_message(self._stages.sent, self.devices, self.job.machine)

    @cached_property
    def _forward(self) -> tuple[float, ...]:
        return tuple(stage.forward for stage in self._stages.total)

    @cached_property
    def _backward(self) -> tuple[float, ...]:
        return _sums([stage.backward for stage in self._stages.total], self._stages.accumulation)

    @cached_property
    def _again(self) -> tuple[float, ...]:
        """Per stage, seconds of what is recomputed within a backward."""
        if self.recompute == "full":
            return self._forward
        some = self.recompute == "selective"
        return tuple(stage.scores_products + stage.scores_traffic if some else 0.0 for stage in self._stages.total)

    @cached_property
    def _shards(self) -> _Shards | None:
        """What a micro-batch waits for, where anything that it needs is sharded."""
        if self.zero < 2 or max(self.ranks, self.expert_ranks) == 1:
            return None
        state = self.job.state
        # Breadth-first, a device stays with a stage for all micro-batches.
        visits = self.M if self.recipe == "breadth_first" else 1

        def exchange(each: int) -> list[float]:
            total = self._stages.total
            found = self._rings(each, [one.parameters for one in total], [one.experts for one in total])
            return [seconds / visits for seconds in found]

        gradients, backward = exchange(state.gradient), _sums(self._backward, self._again)
        if self.zero == 2:
            return _Shards((0.0,) * len(self.balance), tuple(map(costs.exposed, gradients, backward)))
        weights = exchange(state.weight)
        return _Shards(
            tuple(map(costs.exposed, weights, self._forward)),
            tuple(map(costs.exposed, _sums(weights, gradients), backward)),
        )

    @property
    def timeline(self) -> Timeline:
        """The planned step of one replica, without what follows it. Made anew each time, so that plans stay small."""
        return self.timeline_of(self.M)

    def timeline_of(self, M: int) -> Timeline:
        """The same with so many micro-batches of this size."""
        return simulate(self._schedule(M), self.costs, self._alone)

    @property
    def step(self) -> float:
        """Seconds of a step, until the last device has reduced its gradients and updated its weights."""
        return self._times[0]

    @property
    def bubble(self) -> float:
        """Idle share of a replica's devices, until the pipeline has ended."""
        return self._times[1]

    @cached_property
    def exposed(self) -> tuple[float, ...]:
        """Per device, seconds of what replicas exchange after its last op: the rest of reducing gradients, and, with
        ZeRO-1 and 2, collecting weights after the update."""
        if self.zero == 3 or max(self.ranks, self.expert_ranks) == 1:
            return (0.0,) * self.K
        reduce, collect = (
            self._rings(each, self._parameters, self._expert_parameters)
            for each in (self.job.state.gradient, self.job.state.weight)
        )
        if self.zero == 2:
            return tuple(collect)
        halves, backwards = 2 - self.zero, self._per_device(self._backward)
        left = [costs.exposed(halves * half, backward) for half, backward in zip(reduce, backwards, strict=True)]
        return _sums(left, collect) if self.zero else tuple(left)

    def _rings(self, each: int, parameters: Sequence[float], experts: Sequence[float]) -> list[float]:
        """Seconds of half an all-reduce of `each` bytes for so many parameters, and for so many of experts, each among
        devices with the same ones."""
        machine, apart = self.job.machine, self.group.tensor
        known = {count: machine.ring(each * count, self.ranks, apart) for count in set(parameters)}
        found = [known[count] for count in parameters]
        if not self._routed:
            return found
        apart = self.experts.ranks * self.experts.tensor
        return [
            seconds + machine.ring(each * count, self.expert_ranks, apart)
            for seconds, count in zip(found, experts, strict=True)
        ]

    @cached_property
    def update(self) -> tuple[float, ...]:
        """Per device, seconds of the optimizer."""
        share, other = (self.ranks, self.expert_ranks) if self.zero else (1, 1)
        mine = zip(self._parameters, self._expert_parameters, strict=True)
        return tuple(
            costs.update(self.job.state, each / share + experts / other, self.job.machine) for each, experts in mine
        )

    @property
    def floor(self) -> float:
        """A lower bound of a step that is quick to compute: the seconds of all ops, shared by the devices."""
        again = self._stages.forward_work if self.recompute in ("full", "stage") else 0.0
        return self.M * (self._stages.forward_work + self._stages.backward_work + again) / self.K

    @cached_property
    def bound(self) -> float:
        """A lower bound of a step: seconds of a device's ops, of the forwards before its first and of the backwards
        after its last, with their messages, and of what follows the pipeline."""
        hop, after = self._link + self.job.machine.latency, self._after
        kinds = ("FIW" if self._splits else "FB") + "R" * (self.recompute == "stage")
        table = {kind: self._seconds(kind) for kind in kinds}
        work = self._per_device(_sums(*table.values()))
        begins = [done + k * hop for k, done in enumerate(accumulate(table["F"][: self.K - 1], initial=0.0))]
        if self.recipe in ("zero_bubble_v", "dual_pipe_v"):  # it is left open which ops end a device's row
            return max(a + self.M * busy + end for a, busy, end in zip(begins, work, after, strict=True))
        behind = self._weights_behind if self._splits else (0.0,) * self.K
        end = found = 0.0  # when backwards end on the device behind; the most of all devices so far
        for k in reversed(range(self.K)):
            back = end + hop + table["I" if self._splits else "B"][k] if end else 0.0
            end = max(begins[k] + self.M * work[k] - behind[k], back)
            found = max(found, end + behind[k] + after[k])
        return found

    @property
    def _weights_behind(self) -> list[float]:
        """Per device k, seconds of the weight gradients after its last input gradient: k that were put off, and that
        gradient's own. All of the last group pass one stage before the next."""
        groups = max(1, self.M // self.K)
        seconds, size = self._seconds("W"), self.M // groups
        return [
            sum(seconds[v * self.K + k] * min(size, max(0, k + 1 - v * size)) for v in range(self.V))
            for k in range(self.K)
        ]

    @cached_property
    def parts(self) -> dict[str, float]:
        """What a step's seconds are, averaged over the devices; their sum is the step."""
        total = self._stages.total
        seconds = {
            "products": 3 * sum(stage.products for stage in total),
            "memory": 3 * sum(stage.traffic for stage in total) + sum(self._stages.accumulation),
            "recompute": sum(self._forward if self.recompute == "stage" else self._again),
            "groups": sum(stage.messages + stage.backward_messages for stage in total),
            "shards": sum(map(sum, self._shards or ())),
        }
        if self._routed:
            seconds["experts"] = 2 * sum(stage.exposed for stage in total)
            seconds["groups"] -= seconds["experts"]
        found = {name: self.M * each / self.K for name, each in seconds.items()}
        if self._alone:
            counts = _alone_in(self._order, self.K, self.M, self.V)
            found["experts"] += sum(map(mul, counts, self._alone)) / self.K
        found |= {"replicas": sum(self.exposed) / self.K, "update": sum(self.update) / self.K}
        return found | {"bubble": max(0.0, self.step - sum(found.values()))}

    @cached_property
    def activations(self) -> tuple[float, ...]:
        """Per device, bytes at the peak."""
        again = self._splits and self.recompute == "stage"
        kept, later, once = zip(*self._kept, strict=True)
        peaks = []
        for home, moments in zip(self._homes, _held(self._order, self.K, self.M, self.V, again), strict=True):
            here = [[values[stage] for stage in home] for values in (kept, later, once)]
            peaks.append(
                max(
                    sum(map(mul, held, here[0])) + sum(map(mul, waiting, here[1])) + here[2][at]
                    for held, waiting, at in moments
                )
            )
        return tuple(peaks)

    @property
    def _kept(self) -> list[tuple[float, float, float]]:
        """Per stage: bytes that each micro-batch in flight keeps; that it also keeps from its recompute to its W, where
        backwards are split; and that only the one at work has."""
        stages = zip(self._stages.boundaries, self._stages.total, self._stages.largest, strict=True)
        if self.recompute == "none":
            return [(start + layers.stored, 0.0, 0.0) for start, layers, _ in stages]
        if self.recompute == "selective":
            return [(start + layers.stored - layers.scores, 0.0, most.scores) for start, layers, most in stages]
        if self.recompute == "full":
            return [(layers.entering, layers.stored, most.stored) for _, layers, most in stages]
        split = self._splits
        return [(start, layers.stored, 0.0 if split else layers.stored) for start, layers, _ in stages]

    @cached_property
    def weights(self) -> tuple[float, ...]:
        """Per device, bytes of its weights, with those of other shards while it has them."""
        there = self._gathered(self.job.state.weight) if self.zero == 3 else (0.0,) * self.K
        return _sums(self._held_bytes(0), there)

    @cached_property
    def gradients(self) -> tuple[float, ...]:
        """Per device, bytes of its gradients, with those of a layer before they are scattered."""
        there = self._gathered(self.job.state.gradient) if self.zero >= 2 else (0.0,) * self.K
        return _sums(self._held_bytes(1), there)

    @cached_property
    def optimizer(self) -> tuple[float, ...]:
        """Per device, bytes of the optimizer's state."""
        return self._held_bytes(2)

    def _held_bytes(self, part: int) -> tuple[float, ...]:
        """Per device, bytes of weights (0), gradients (1) or the optimizer's state (2) that are its own."""
        each, own = (self.job.state.shared(self.zero, ranks)[part] for ranks in (self.ranks, self.expert_ranks))
        mine = zip(self._parameters, self._expert_parameters, strict=True)
        return tuple(each * count + own * experts for count, experts in mine)

    def _gathered(self, each: int) -> tuple[float, ...]:
        """Per device, bytes of what is whole for a time: two layers, or, breadth-first, a stage."""
        found = self._gathered_of(each, "parameters", self.ranks)
        return _sums(found, self._gathered_of(each, "experts", self.expert_ranks)) if self._routed else found

    def _gathered_of(self, each: int, kind: str, ranks: int) -> tuple[float, ...]:
        if ranks == 1:
            return (0.0,) * self.K
        whole_stage = self.schedule == "breadth_first" and self.K > 1
        sizes = [
            getattr(all_, kind) if whole_stage else min(getattr(all_, kind), 2 * getattr(most, kind))
            for all_, most in zip(self._stages.total, self._stages.largest, strict=True)
        ]
        return tuple(each * max(sizes[stage] for stage in home) * (1 - 1 / ranks) for home in self._homes)

    @cached_property
    def state(self) -> tuple[float, ...]:
        """Per device, bytes of weights, gradients and the optimizer's state."""
        return _sums(self.weights, self.gradients, self.optimizer)

    @cached_property
    def memory(self) -> tuple[float, ...]:
        """Per device, weights, gradients, state and activations in bytes."""
        return _sums(self.state, self.activations)

    @property
    def fullest(self) -> int:
        """The device that holds most."""
        return self.memory.index(max(self.memory))

    @property
    def held(self) -> dict[str, float]:
        """What fills the fullest device, in bytes."""
        parts = ("weights", "gradients", "optimizer", "activations")
        return {name: getattr(self, name)[self.fullest] for name in parts}

    @property
    def short(self) -> float:
        """Bytes that the fullest device lacks; negative is what it has to spare."""
        return max(self.memory) - self.job.machine.usable

    @cached_property
    def fits(self) -> bool:
        """True if no device lacks memory."""
        return max(self.state) <= self.job.machine.usable and self.short <= 0

    @property
    def tokens_per_second(self) -> float:
        """Of all devices together; of a model without tokens, samples."""
        return self.job.batch * self.job.model.tokens / self.step

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: operations of forward and backward, none counted twice, over what the devices' data
        sheets would allow (Chowdhery et al. 2022, arXiv 2204.02311, appendix B)."""
        work = 3 * self.job.batch * sum(layer.work for layer in self.job.model.layers)
        return work / self.step / self.devices / (self.job.machine.peak or self.job.machine.speed)

    @cached_property
    def _after(self) -> tuple[float, ...]:
        return _sums(self.exposed, self.update)

    @property
    def _splits(self) -> bool:
        return form_of(self.recipe).splits

    def as_dict(self) -> dict[str, object]:
        """Knobs, times in seconds and sizes in bytes of the fullest device, for other programs."""
        tensor, sequence, context = self.group
        return {
            "D": self.D,
            "K": self.K,
            "M": self.M,
            "V": self.V,
            "zero": self.zero,
            "recompute": self.recompute,
            "schedule": self.schedule if self.K > 1 else None,
            "tensor": tensor,
            "sequence": sequence,
            "context": context,
            **({"experts": self.experts._asdict()} if self._routed else {}),
            "devices": self.devices,
            "samples": self.samples,
            "balance": list(self.balance),
            "fits": self.fits,
            "step": self.step,
            "bubble": self.bubble,
            "tokens_per_second": self.tokens_per_second,
            "mfu": self.mfu,
            "parts": self.parts,
            "memory": self.held | {"memory": max(self.memory)},
        }

    @cached_property
    def _times(self) -> tuple[float, float]:
        last, busy = simulate_ends(self._schedule(self.M), self.costs, self._alone)
        end = max(last)
        return max(map(add, last, self._after)), max(0.0, 1 - sum(busy) / (self.K * end)) if end else 0.0

    def _schedule(self, M: int) -> Schedule:
        schedule = _schedule(self._order, self.K, M, self.V, self.recompute == "stage")
        return schedule if self._alone else schedule.apart()

    @property
    def _homes(self) -> tuple[tuple[int, ...], ...]:
        return _homes(self.recipe, self.K, self.V)

    @cached_property
    def _parameters(self) -> tuple[float, ...]:
        held = [stage.parameters for stage in self._stages.total]
        if self.V > 1 and self._homes[0][-1] == len(held) - 1:
            held[-1] -= self._stages.total[-1].tied  # a V ends where it begins, and there is one copy of what is tied
        return tuple(self._per_device(held))

    @cached_property
    def _expert_parameters(self) -> tuple[float, ...]:
        return tuple(self._per_device([stage.experts for stage in self._stages.total]))

    @cached_property
    def _alone(self) -> tuple[float, ...]:
        """Per stage, seconds of messages with experts that nothing hides where an op is in no pair; () if none are."""
        return tuple(stage.hidden for stage in self._stages.total) if self.experts.hide == "pairs" else ()

    def _per_device(self, values: Sequence[float]) -> list[float]:
        if self.V == 1:
            return list(values)
        return [sum(values[stage] for stage in home) for home in self._homes]

    def __repr__(self) -> str:
        return f"Plan({self.knobs}: planned step {self.step:.3g} s)"


class _Shards(NamedTuple):
    """Per stage, seconds that a micro-batch waits for what is sharded."""

    forward: tuple[float, ...]
    backward: tuple[float, ...]


def _sums(*values: Sequence[float]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*values, strict=True)))


def stages_per_device(schedule: str, V: int | None) -> int:
    """How many stages a device has in that schedule: V where it takes any number, two unless said otherwise."""
    form = form_of(schedule)
    return V if form.takes_V and V is not None else form.stages


@lru_cache(maxsize=32)
def _schedule(name: str, K: int, M: int, V: int, recompute: bool) -> Schedule:
    recipe = RECIPES[name]
    schedule = recipe(K, M, V) if form_of(name).takes_V else recipe(K, M)
    return with_recompute(schedule, "always" if recompute else "never")


@lru_cache(maxsize=32)
def _alone_in(name: str, K: int, M: int, V: int) -> tuple[int, ...]:
    """Per stage, how many forwards, and ops that send a gradient, are in no pair."""
    schedule = _schedule(name, K, M, V, recompute=False)
    sending = Counts(op.stage for row in schedule.rows for op in row if op.kind == "F" or op.kind in SENDS_GRADIENT)
    sending.subtract(op.stage for pair in schedule.pairs for op in pair)
    return tuple(sending[stage] for stage in range(schedule.stages))


@lru_cache(maxsize=1024)
def _homes(name: str, K: int, V: int) -> tuple[tuple[int, ...], ...]:
    """Per device, its stages: every K-th, or, in a V, one on the way down and one on the way up."""
    # Two devices show which; a schedule for many takes long to build.
    folds = V > 1 and _schedule(name, 2, 1, V, recompute=False).device_of_stage[2] == 1
    return tuple(
        tuple(v * K + (K - 1 - device if folds and v % 2 else device) for v in range(V)) for device in range(K)
    )


class Moment(NamedTuple):
    """What a device holds when an op starts."""

    held: tuple[int, ...]  # for each of its stages, micro-batches from their F to the end of their B or W
    waiting: tuple[int, ...]  # of these, those past the start of their R or, where backwards are split, I
    at: int  # the stage at work


def _held(name: str, K: int, M: int, V: int, again: bool) -> tuple[tuple[Moment, ...], ...]:
    """Per device, the moments at which it may hold most. again: whether what waits for its W is there from its R on."""
    none = (0,) * V
    if name in ("1f1b", "gpipe"):
        return tuple((Moment((min(M, K - k) if name == "1f1b" else M,), none, 0),) for k in range(K))
    if name == "breadth_first":
        return (tuple(Moment((M,) * (v + 1) + none[v + 1 :], none, v) for v in range(V)),) * K
    # In all others the warm-up is over and the peak reached after so many micro-batches, unless groups are unequal.
    few = M if M % K and form_of(name).takes_V else min(M, 2 * K)
    return _walked(name, K, few, V, again)


@lru_cache(maxsize=4096)
def _walked(name: str, K: int, M: int, V: int, again: bool) -> tuple[tuple[Moment, ...], ...]:
    """The same, found by walking along every device's ops."""
    found = []
    for row, home in zip(_schedule(name, K, M, V, recompute=again).rows, _homes(name, K, V), strict=True):
        held, waiting, moments = [0] * V, [0] * V, set()
        for kind, _, stage in row:
            at = home.index(stage)
            held[at] += kind == "F"
            waiting[at] += kind == ("R" if again else "I")
            if kind != "W":
                moments.add(Moment(tuple(held), tuple(waiting), at))
            held[at] -= kind in FINISHES
            waiting[at] -= kind == "W" or (again and kind == "B")
        found.append(_most(moments))
    return tuple(found)


def _most(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """The moments for which no other, with the same stage at work, holds at least as much of everything."""
    found: list[Moment] = []
    for one in sorted(moments, key=lambda one: -sum(one.held) - sum(one.waiting)):
        mine = one.held + one.waiting
        if not any(one.at == more.at and all(map(le, mine, more.held + more.waiting)) for more in found):
            found.append(one)
    return tuple(found)
