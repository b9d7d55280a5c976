"""What is to be trained, in which numbers, and on which machine: its devices and their links."""

from __future__ import annotations

from typing import Final, NamedTuple

from gpipe_edu.base.validate import number, whole

from .model import Model

MOST_DEVICES: Final = 16384
"""Beyond these a table of plans would take minutes, not seconds."""


class Machine(NamedTuple):
    """Equal devices, in nodes. Times in seconds, sizes in bytes, bandwidths in bytes per second, one way.

    Devices that share most are next to each other: a tensor group in one node, beside it the devices that share a
    sequence, then replicas, and last the stages of a pipeline.
    """

    devices: int
    memory: float  # of each device
    speed: float  # operations per second that a device sustains in the matrix products of a model, however wide it is
    overhead: float = 0  # seconds per layer and forward that do not shrink with the micro-batch
    link: float | None = None  # between two devices of a node; None: sending takes no time
    reserve: float = 0.1  # share of the memory to leave free
    network: float | None = None  # of each device, to other nodes; None: as within a node
    node: int | None = None  # devices in a node; None: all are in one
    latency: float = 0  # seconds from the end of a message to its use
    bandwidth: float | None = None  # of the memory; None: only matrix products take time
    peak: float | None = None  # operations per second of the data sheet, of which MFU is a share; None: as `speed`

    @property
    def usable(self) -> float:
        """Bytes of a device's memory that a plan may use."""
        return self.memory * (1 - self.reserve)

    def check(self) -> Machine:
        """Return self. Raises ValueError or TypeError for impossible values, naming them and what is allowed."""
        whole("devices", self.devices, 1)
        if self.node is not None:
            whole("node", self.node, 1)
        for name in ("overhead", "latency"):
            number(name, getattr(self, name))
        for name in ("memory", "speed", "link", "network", "bandwidth", "peak"):
            value = getattr(self, name)
            if (value is not None or name in ("memory", "speed")) and not number(name, value):
                raise ValueError(f"{name} is {value}; it must be more than 0")
        if number("reserve", self.reserve) >= 1:
            raise ValueError(f"reserve is {self.reserve}; it must be at least 0 and below 1, such as 0.1")
        return self

    def slowed(self, factor: float) -> Machine:
        """A machine on which everything takes `factor` times as long."""
        rates = {
            name: value / factor
            for name in ("speed", "link", "network", "bandwidth")
            if (value := getattr(self, name)) is not None
        }
        return self._replace(
            **rates, overhead=self.overhead * factor, latency=self.latency * factor, peak=self.peak or self.speed
        )

    def slowest(self, devices: int) -> float | None:
        """Bandwidth of the slowest link among so many neighbours: beyond a node, the network. None: sending is free."""
        return (self.network or self.link) if self.node is not None and devices > self.node else self.link

    def ring(self, count: float, ranks: int, apart: int = 1) -> float:
        """Seconds for half an all-reduce, a reduce-scatter or an all-gather, of `count` bytes among `ranks` devices.

        Rings, and a ring of nodes for what is left to each device of a node (Patarasuk and Yuan 2009): within a node
        (g-1)/g of the bytes pass a link, then (n-1)/n of a g-th of them pass the network, for n nodes of g. apart: how
        many devices there are from one rank to the next; where that is a node, every rank is in a node of its own.
        """
        if ranks == 1:
            return 0.0
        within = ranks if self.node is None else min(ranks, max(1, self.node // apart))
        nodes = -(-ranks // within)
        seconds = (within - 1) / within * count / self.link if self.link else 0.0
        outside = self.network or self.link
        if nodes > 1 and outside:
            seconds += (nodes - 1) / nodes * count / within / outside
        return seconds + self.latency * (within - 1 + nodes - 1)


class BytesPerParameter(NamedTuple):
    """Bytes per parameter."""

    weight: int
    gradient: int
    optimizer: int  # what the optimizer keeps, with its own copy of the weight if there is one

    def shared(self, zero: int, ranks: int) -> tuple[float, float, float]:
        """Bytes on one of `ranks` devices: ZeRO-1 divides the optimizer's, ZeRO-2 gradients too, ZeRO-3 all."""
        parts = self.weight, self.gradient, self.optimizer
        return tuple(  # type: ignore[return-value]  # three of them
            part / (ranks if zero >= stage else 1) for part, stage in zip(parts, (3, 2, 1), strict=True)
        )


STATES: Final = {
    "sgd": BytesPerParameter(4, 4, 0),
    "momentum": BytesPerParameter(4, 4, 4),
    "rmsprop": BytesPerParameter(4, 4, 4),
    "adam": BytesPerParameter(4, 4, 8),
    "mixed-adam": BytesPerParameter(2, 4, 12),
}
"""By optimizer, in 32-bit numbers; "mixed-adam" computes with 16 bits and adds gradients up in 32, as Megatron Core
does. Rajbhandari et al. 2019 (arXiv 1910.02054, 3.1) count 2 bytes for a gradient, which is never added to another."""


class Job(NamedTuple):
    """What is to be trained, and on which machine."""

    model: Model
    batch: int  # N, over all replicas
    machine: Machine
    state: BytesPerParameter = STATES["adam"]
    activation: int = 4  # bytes per number stored or sent
    imbalance: float = 1  # tokens of the device whose experts get most, over those of all on average

    def check(self) -> Job:
        """Return self. Raises ValueError or TypeError for what cannot be planned, naming it and what is allowed."""
        whole("batch", self.batch, 1)
        whole("activation", self.activation, 1)
        for name, value in self.state._asdict().items():
            whole(f"state {name}", value, 0)
        if number("imbalance", self.imbalance) < 1:
            raise ValueError(f"imbalance is {self.imbalance}; it must be at least 1, where all get equally many tokens")
        if self.imbalance != 1 and not self.model.routed:
            raise ValueError(f"imbalance is {self.imbalance}, but {self.model.name} has no routed experts; use 1")
        self.machine.check()
        return self
