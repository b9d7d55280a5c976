"""The devices of a plan and their links, and what a mini-batch costs besides the ops."""

from __future__ import annotations

from typing import NamedTuple

from gpipe_edu.validate import number, whole


class Machine(NamedTuple):
    """Equal devices, in nodes. Times in seconds, sizes in bytes, bandwidths in bytes per second, one way.

    A device may be a group of `tensor` accelerators that share every layer (tensor and sequence parallelism, Narayanan
    et al. 2021, Korthikanti et al. 2022): memory, speed and links are then those of one accelerator.
    """

    devices: int
    memory: float  # of each accelerator
    speed: float  # operations per second that an accelerator sustains on large matrices
    overhead: float = 0  # seconds per layer and forward that do not shrink with the micro-batch
    link: float | None = None  # between two accelerators of a node; None: sending takes no time
    reserve: float = 0.1  # share of the memory to leave free
    network: float | None = None  # of each accelerator, to other nodes; None: as within a node
    node: int | None = None  # accelerators in a node; None: all are in one
    latency: float = 0  # seconds from the end of a message to its use
    tensor: int = 1

    @property
    def usable(self) -> float:
        """Bytes of an accelerator's memory that a plan may use."""
        return self.memory * (1 - self.reserve)

    @property
    def neighbours(self) -> int:
        """Devices in a node."""
        return self.devices if self.node is None else max(1, self.node // self.tensor)

    def check(self) -> Machine:
        """Return self. Raises ValueError or TypeError for impossible values, naming them and what is allowed."""
        whole("devices", self.devices, 1)
        whole("tensor", self.tensor, 1)
        if self.node is not None:
            whole("node", self.node, 1)
        for name in ("overhead", "latency"):
            number(name, getattr(self, name))
        for name in ("memory", "speed", "link", "network"):
            value = getattr(self, name)
            if (value is not None or name in ("memory", "speed")) and not number(name, value):
                raise ValueError(f"{name} is {value}; it must be more than 0")
        if number("reserve", self.reserve) >= 1:
            raise ValueError(f"reserve is {self.reserve}; it must be at least 0 and below 1, such as 0.1")
        if self.node is not None and self.node % self.tensor and self.tensor % self.node:
            raise ValueError(
                f"tensor is {self.tensor}, but a node has {self.node} accelerators; a tensor group must not straddle "
                "nodes, so use a divisor"
            )
        return self

    def sending(self, count: float, devices: int) -> float:
        """Seconds for which a message of `count` bytes keeps its link busy, if `devices` devices work together.

        The slowest link counts: where they don't fit into a node, the network.
        """
        slowest = self._slow if devices > self.neighbours else self.link
        return count / slowest if slowest else 0.0

    def reducing(self, count: float, replicas: int) -> float:
        """Seconds for half an all-reduce, a reduce-scatter or an all-gather, of `count` bytes over `replicas` devices.

        Rings, and a ring of nodes for what is left to each device of a node (Patarasuk and Yuan 2009): within a node
        (g-1)/g of the bytes pass a link, then (n-1)/n of a g-th of them pass the network, for n nodes of g.
        """
        within = min(replicas, self.neighbours)
        nodes = -(-replicas // within)
        seconds = (within - 1) / within * count / self.link if self.link else 0.0
        if nodes > 1 and self._slow:
            seconds += (nodes - 1) / nodes * count / within / self._slow
        return seconds + self.latency * (within - 1 + nodes - 1)

    def sharing(self, count: float) -> float:
        """Seconds for an all-reduce of `count` bytes within a tensor group."""
        if self.tensor == 1 or not self.link:
            return 0.0
        return 2 * (self.tensor - 1) / self.tensor * count / self.link

    @property
    def _slow(self) -> float | None:
        return self.network or self.link
