"""A plan's step and memory counted again, from the formulas of docs and docstrings and from none of `gpipe_edu.sizing`.

Of the package it takes the order of the ops, which is tested elsewhere, and the three fitted numbers. Layers are
counted one by one, a ring by its steps, times by the events of `tests/oracle.py`, memory by walking along every device.
The cut is given: that it is the best is asserted by trying all.
"""

from functools import cache
from itertools import combinations, pairwise

from gpipe_edu.schedule.recipes import RECIPES, form_of
from gpipe_edu.schedule.recompute import with_recompute
from gpipe_edu.sizing.costs import MOVES, OVERLAP
from tests.oracle import events, plain


@cache
def ops(schedule, K, M, V, again):
    """The rows of a schedule as plain tuples; one device does a micro-batch's B behind its F."""
    name = schedule if K > 1 else "1f1b"
    built = RECIPES[name](K, M, V) if form_of(name).takes_V else RECIPES[name](K, M)
    return plain(with_recompute(built, "always") if again else built)


def ring(machine, count, ranks, apart):
    """Seconds of half an all-reduce: in each step everybody hands one part on, first in a node, then between nodes."""
    node = machine.node or machine.devices
    within = 1 if apart >= node else min(ranks, node // apart)
    nodes = (ranks + within - 1) // within
    seconds = 0.0
    for _ in range(within - 1):
        seconds += count / within / machine.link if machine.link else 0
        seconds += machine.latency
    for _ in range(nodes - 1):
        outside = machine.network or machine.link
        seconds += count / within / nodes / outside if outside else 0
        seconds += machine.latency
    return seconds


def knobs_of(plan):
    tensor, sequence, context = plan.group
    knobs = {name: getattr(plan, name) for name in ("D", "K", "M", "recompute", "schedule", "zero")}
    return knobs | {"tensor": tensor, "sequence": sequence, "context": context}


class Counted:
    """`Counted(job, knobs, balance)`: what `Plan` says, counted again. knobs: as of `Plan`, all but V."""

    def __init__(self, job, knobs, balance):
        self.job, self.balance = job, balance
        self.D, self.K, self.M, self.recompute = (knobs[name] for name in ("D", "K", "M", "recompute"))
        self.schedule, self.zero, self.tensor = (knobs[name] for name in ("schedule", "zero", "tensor"))
        self.sequence, self.context = knobs["sequence"], knobs["context"]
        self.ranks, self.V = self.D * self.context, len(balance) // self.K
        self.samples = -(-job.batch // (self.D * self.M))
        self.rows = ops(self.schedule, self.K, self.M, self.V, self.recompute == "stage")
        self.splits = any(kind == "W" for row in self.rows for kind, _, _ in row)
        self.layers = layer_costs(job, self.samples, self.tensor, self.sequence, self.context)
        ends = [sum(balance[:stage]) for stage in range(len(balance) + 1)]
        self.stages = [self.layers[start:end] for start, end in pairwise(ends)]
        self.homes = [sorted({stage for _, _, stage in row}) for row in self.rows]

    def cut_is_best(self):
        """Whether no cut has a faster slowest stage."""
        seconds = [layer["forward"] + layer["backward"] for layer in self.layers]

        def slowest(bounds):
            return max(sum(seconds[start:end]) for start, end in pairwise(bounds))

        L, parts = len(seconds), len(self.balance)
        mine = slowest([sum(self.balance[:stage]) for stage in range(parts + 1)])
        return mine <= (1 + 1e-9) * min(slowest((0, *inner, L)) for inner in combinations(range(1, L), parts - 1))

    def forward(self, stage):
        return sum(layer["forward"] for layer in self.stages[stage])

    def added(self, stage):
        bandwidth = self.job.machine.bandwidth
        return 14 * sum(layer["parameters"] for layer in self.stages[stage]) / bandwidth if bandwidth else 0.0

    def backward(self, stage):
        return sum(layer["backward"] for layer in self.stages[stage]) + self.added(stage)

    def again(self, stage):
        """What is recomputed within a backward."""
        name = {"full": "forward", "selective": "again"}.get(self.recompute)
        return sum(layer[name] for layer in self.stages[stage]) if name else 0.0

    def waits(self, stage):
        """Seconds of gathering weights and scattering gradients that computation does not hide."""
        parameters = sum(layer["parameters"] for layer in self.stages[stage])
        visits = self.M if self.schedule == "breadth_first" and self.K > 1 else 1
        weights, gradients = (
            ring(self.job.machine, each * parameters, self.ranks, self.tensor) / visits if self.zero >= least else 0.0
            for each, least in ((self.job.state.weight, 3), (self.job.state.gradient, 2))
        )
        backward = self.backward(stage) + self.again(stage)
        return (
            max(0.0, weights - OVERLAP * self.forward(stage)),
            max(0.0, weights + gradients - OVERLAP * backward),
        )

    @property
    def durations(self):
        """Seconds by kind and stage."""
        found = {}
        for stage in range(len(self.stages)):
            forward, backward, again = self.forward(stage), self.backward(stage), self.again(stage)
            before, behind = self.waits(stage)
            # Attention's products have no weights: their two gradients are both of inputs.
            apart = sum(layer["weightless"] for layer in self.stages[stage])
            half = (backward - self.added(stage)) / 2
            found |= {("F", stage): forward + before, ("R", stage): forward, ("I", stage): half + apart + again}
            found |= {("B", stage): backward + again + behind, ("W", stage): half - apart + self.added(stage) + behind}
        return found

    def held_parameters(self, device):
        return sum(layer["parameters"] for stage in self.homes[device] for layer in self.stages[stage])

    def after(self, device):
        """Seconds behind a device's last op: what is left of exchanging gradients and weights, and the update."""
        machine, state, parameters = self.job.machine, self.job.state, self.held_parameters(device)
        gradients, weights = (
            ring(machine, each * parameters, self.ranks, self.tensor) for each in (state.gradient, state.weight)
        )
        work = OVERLAP * sum(self.backward(stage) for stage in self.homes[device])
        left = {
            0: max(0.0, 2 * gradients - work),
            1: max(0.0, gradients - work) + weights,
            2: weights,
            3: 0.0,
        }[self.zero if self.ranks > 1 else 3]
        mine = parameters / (self.ranks if self.zero else 1)
        update = (state.weight + state.gradient + 2 * state.optimizer) * mine
        return left + (update / machine.bandwidth if machine.bandwidth else 0.0)

    @property
    def floor(self):
        """No step is shorter: the work of its busiest device."""
        durations = self.durations
        return max(sum(durations[kind, stage] for kind, _, stage in row) for row in self.rows)

    @property
    def step(self):
        """Event by event."""
        machine, durations = self.job.machine, self.durations
        devices = self.D * self.K * self.tensor * self.context
        beyond = machine.node is not None and devices > machine.node
        slowest = (machine.network or machine.link) if beyond else machine.link
        widest = max((stage[0]["entering"] for stage in self.stages[1:]), default=0.0)
        # Without sequence parallelism all of a tensor group have the boundary; each sends a part of it.
        sent = widest if self.sequence else widest / self.tensor
        ran, _ = events(
            self.rows, lambda op: durations[op[0], op[2]], machine.latency, sent / slowest if slowest else 0
        )
        return max(max(ran[op][1] for op in row) + self.after(device) for device, row in enumerate(self.rows))

    def state(self, device):
        """Bytes of weights, gradients and the optimizer's state, with what is whole for a time."""
        spread = {"optimizer": 1, "gradient": 2, "weight": 3}  # from which stage of ZeRO on
        held = self.held_parameters(device)
        found = sum(
            getattr(self.job.state, name) * held / (self.ranks if self.zero >= least else 1)
            for name, least in spread.items()
        )
        whole = 0.0
        for stage in self.homes[device]:
            counts = [layer["parameters"] for layer in self.stages[stage]]
            together = sum(counts) if self.schedule == "breadth_first" and self.K > 1 else 2 * max(counts)
            whole = max(whole, min(sum(counts), together))
        for name in ("gradient", "weight"):
            if self.zero >= spread[name]:
                found += getattr(self.job.state, name) * whole * (1 - 1 / self.ranks)
        return found

    def activations(self, device):
        """Bytes at the peak, op by op, micro-batch by micro-batch."""
        held, opened, peak = set(), set(), 0.0
        for kind, m, stage in self.rows[device]:
            if kind == "F":
                held.add((m, stage))
            if self.splits and kind == ("R" if self.recompute == "stage" else "I"):
                opened.add((m, stage))
            if kind != "W":
                peak = max(
                    peak,
                    sum(self._kept(at) for _, at in held)
                    + sum(self._until_W(at) for _, at in opened)
                    + self._at_work(stage),
                )
            if kind in "BW":
                held.discard((m, stage))
                opened.discard((m, stage))
        return peak

    def _kept(self, stage):
        layers = self.stages[stage]
        stored, scores = (sum(layer[name] for layer in layers) for name in ("stored", "scores"))
        return {
            "none": layers[0]["entering"] + stored,
            "selective": layers[0]["entering"] + stored - scores,
            "full": sum(layer["entering"] for layer in layers),
            "stage": layers[0]["entering"],
        }[self.recompute]

    def _until_W(self, stage):
        """Where backwards are split, what was recomputed stays until the W."""
        return sum(layer["stored"] for layer in self.stages[stage]) if self.recompute in ("full", "stage") else 0.0

    def _at_work(self, stage):
        layers = self.stages[stage]
        if self.recompute == "stage":
            return 0.0 if self.splits else sum(layer["stored"] for layer in layers)
        name = {"none": None, "selective": "scores", "full": "stored"}[self.recompute]
        return max(layer[name] for layer in layers) if name else 0.0

    def memory(self, device):
        return self.state(device) + self.activations(device)

    @property
    def fits(self):
        machine = self.job.machine
        return all(self.memory(device) <= machine.memory * (1 - machine.reserve) for device in range(self.K))


def layer_costs(job, samples, tensor, sequence, context):
    """Per layer: seconds of forward and backward, and of making the scores again; bytes; parameters of a device."""
    machine, size = job.machine, job.activation
    found, entering = [], job.model.inputs
    for layer in job.model.layers:
        mine = samples / context
        if tensor > 1 and not sequence:
            norms = layer.moved / 2 if layer.whole else 0
            moved = norms + (layer.moved - norms) / tensor
            stored = layer.whole + (layer.stored - layer.whole) / tensor
        else:
            moved, stored = layer.moved / tensor, layer.stored / tensor
        products = mine * layer.work / tensor / machine.speed
        through = size / machine.bandwidth if machine.bandwidth else 0.0
        scores = mine * layer.scores / tensor
        traffic = (MOVES * mine * moved + 2 * scores) * through + machine.overhead
        reduced = 2 * ring(machine, mine * layer.shared * size, tensor, 1)
        gathered = ring(machine, samples * layer.keys / tensor * size, context, tensor)
        exact = stored / layer.stored * layer.exact * max(0, 4 - size) if layer.stored else 0.0
        found.append(
            {
                "forward": products + traffic + reduced + gathered,
                "backward": 2 * products + 2 * traffic + reduced + 2 * gathered,
                "again": mine * layer.scores_work / tensor / machine.speed + 2 * scores * through,
                "entering": mine * entering * size / (tensor if sequence else 1),
                "stored": mine * (stored * size + exact),
                "scores": scores * size,
                "parameters": layer.parameters / tensor,
                "weightless": mine * layer.weightless / tensor / machine.speed,
            }
        )
        entering = layer.output
    return found
