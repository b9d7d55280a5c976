"""What this machine does in a second, for plans: matrix products of several widths, its memory, a link.

All devices are measured at the same time, as they work in training, where cores share a memory; the slowest counts. A
device is a GPU, or, without any, a core. Of several runs the quickest counts, since other programs can only add time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing import spawn  # type: ignore[attr-defined]

from gpipe_edu.process.loopback import talk_by_loopback

from .machine_file import Product

if TYPE_CHECKING:
    from gpipe_edu.cluster.link_speed import Link

_PATIENCE: Final = timedelta(seconds=60)
"""A device that keeps the others waiting for longer is taken to have ended."""


class Shapes(NamedTuple):
    """How large the measured things are: larger where a device is faster."""

    tokens: int  # of a product
    widths: tuple[int, ...]
    copied: int  # bytes, more than a cache holds
    seconds: float = 0.2  # spent on each thing


CORES: Final = Shapes(256, (64, 128, 256, 512, 1024, 2048), 128 << 20)
GPUS: Final = Shapes(8192, (256, 512, 1024, 2048, 4096, 8192), 1 << 30)


class Device(NamedTuple):
    """What one device does; operations and bytes per second, and seconds."""

    name: str
    memory: float  # bytes
    speeds: tuple[float, ...]  # one per width
    bandwidth: float
    overhead: float
    link: float | None  # to the next device, if it is one of the first two
    latency: float | None


def count_devices() -> int:
    """GPUs, or, without any, cores."""
    return torch.cuda.device_count() or psutil.cpu_count(logical=False) or 1


def measure_machine(devices: int, shapes: Shapes | None = None) -> tuple[dict[str, Any], list[Product]]:
    """The fields of a machine file, and products. Raises ValueError for more devices than there are GPUs."""
    cuda = torch.cuda.is_available()
    if cuda and devices > torch.cuda.device_count():
        raise ValueError(f"devices is {devices}, but there are {torch.cuda.device_count()} GPUs")
    shapes = shapes or (GPUS if cuda else CORES)
    found = _on_all(devices, shapes)
    figures = {
        "about": f"{devices} x {found[0].name}",
        "source": f"measured by gpipe_edu calibrate, with PyTorch {torch.__version__}",
        "devices": devices,
        "memory": min(one.memory for one in found),
        "bandwidth": min(one.bandwidth for one in found),
        "overhead": max(one.overhead for one in found),
        "link": found[0].link,
        "latency": found[0].latency,
        "state": "mixed-adam" if cuda else "adam",
        "activation": 2 if cuda else 4,
    }
    speeds = map(min, zip(*(one.speeds for one in found), strict=True))
    return figures, [Product(width, speed) for width, speed in zip(shapes.widths, speeds, strict=True)]


def _on_all(devices: int, shapes: Shapes) -> list[Device]:
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_") as folder:
        paths = [Path(folder) / f"{rank}.pt" for rank in range(devices)]
        spawn(_measure, (paths, str(Path(folder) / "store"), shapes), nprocs=devices)  # type: ignore[no-untyped-call]
        return [Device(*torch.load(path)) for path in paths]


def _measure(rank: int, paths: list[Path], store: str, shapes: Shapes) -> None:
    talk_by_loopback()
    torch.set_num_threads(1)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(rank)
    group = dist.FileStore(store, len(paths))  # type: ignore[attr-defined]
    backend = "nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=group, rank=rank, world_size=len(paths), timeout=_PATIENCE)
    try:
        torch.save(
            tuple(measure_device(torch.device("cuda", rank) if cuda else torch.device("cpu"), shapes)), paths[rank]
        )
    finally:
        dist.destroy_process_group()


def measure_device(device: torch.device, shapes: Shapes) -> Device:
    """What this rank's device does while those of all others do the same."""
    cuda = device.type == "cuda"
    dtype = torch.bfloat16 if cuda else torch.float32
    speeds = []
    for width in shapes.widths:
        left, right = (torch.ones(rows, width, dtype=dtype, device=device) for rows in (shapes.tokens, width))
        speeds.append(2 * shapes.tokens * width**2 / _quickest(partial(torch.matmul, left, right), shapes.seconds))
    there = torch.ones(shapes.copied // 4, device=device)
    copied = _quickest(partial(torch.empty_like(there).copy_, there), shapes.seconds)
    block = nn.TransformerEncoderLayer(16, 1, 16, 0.0, batch_first=True, device=device, dtype=dtype)
    token = torch.ones(1, 1, 16, dtype=dtype, device=device, requires_grad=True)  # else a shortcut is taken
    overhead = _quickest(lambda: [block(token) for _ in range(_BLOCKS)], shapes.seconds) / _BLOCKS
    link = _link(device) if dist.get_world_size() > 1 else None
    dist.barrier()  # none leaves while two are measured
    if cuda:
        known = torch.cuda.get_device_properties(device)
        name, memory = known.name, known.total_memory
    else:
        name, memory = "a core", psutil.virtual_memory().total / dist.get_world_size()
    # Read once, and written once.
    bandwidth = 2 * shapes.copied / copied
    return Device(name, memory, tuple(speeds), bandwidth, overhead, link and link.bandwidth, link and link.latency)


_BLOCKS: Final = 20
"""Enough for the end of the last one to be hidden."""


def _link(device: torch.device) -> Link | None:
    """The link between the first two devices, from the quickest messages of several tries; None on others."""
    # Imported late: one device can be measured even with releases of PyTorch that several processes refuse.
    from gpipe_edu.cluster.link_speed import LARGE, Link, measure

    found = [link for _ in range(_TRIES) if (link := measure(0, 1, dist.group.WORLD, device))]
    if not found:
        return None
    latency = min(link.latency for link in found)
    whole = min(link.latency + link.seconds(LARGE) for link in found)
    return Link(latency, LARGE / max(whole - latency, 1e-9))


_TRIES: Final = 5


def _quickest(action: Callable[[], object], seconds: float) -> float:
    """Seconds of the quickest of as many calls as there is time for, while all devices make them."""
    cuda = torch.cuda.is_available()
    action()
    dist.barrier()
    found: list[float] = []
    end = perf_counter() + seconds
    while not found or perf_counter() < end:
        started = perf_counter()
        action()
        if cuda:
            torch.cuda.synchronize()
        found.append(perf_counter() - started)
    return min(found)
