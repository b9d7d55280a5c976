"""What our layer over torch.distributed.pipelining costs, on two and on four gloo processes.

Each schedule is run in rounds of three steps, on the same processes and with the same ops in the same order: by
PyTorch's own class for it, driven directly with static shapes; by PyTorch's runtime for schedules of any order, driven
directly, too; and by our `Pipeline.step`, which is built on that runtime. This separates what we add from what PyTorch
takes to run any order. Which comes first changes every round, so a slow moment of the machine hits all; what counts is
the ratio within a round. After the median of the ratios comes the interval that has the true median with a probability
of 95 %: a row says that we cost less than 3 % only if this interval ends below 1.03.

    python -m benchmarks.ranks [ROUNDS [N]]     # with nothing else on the machine; 31 rounds, N = 512: four minutes

Each process has one BLAS thread. Ranks start a step together, from a barrier, and it ends with the latest of them;
telling them to start is not part of it. CPU time (user and system, of all ranks together) is given beside the wall
clock: on a busy machine, or with more ranks than cores, a wait for a core is no cost of ours, and CPU time, which
includes gloo's own threads, leaves it out. Bytes are those that the loopback interface carried in a step, including
TCP's own.
"""

from __future__ import annotations

import gc
import os
import re
import socket
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
)

import gpipe_edu as ge
from benchmarks.engines import LAYERS, LOSS, WIDTH, M, batch, model
from benchmarks.measuring import machine, spread
from gpipe_edu.cluster import Pipeline
from gpipe_edu.cluster.engine import lower
from gpipe_edu.cluster.torch_private import Runtime
from gpipe_edu.process.loopback import talk_by_loopback

Work = Callable[[], object]

SAMPLES: Final = (512, 2048)
"""N, of one mini-batch: the smaller the ops, the larger our share of the step."""

RANKS: Final = (2, 4)
ROUNDS: Final = 31
WARM_UP: Final = 3

THEIRS: Final[dict[str, tuple[Any, int]]] = {
    "GPipe": (ScheduleGPipe, 1),
    "1F1B": (Schedule1F1B, 1),
    "interleaved": (ScheduleInterleaved1F1B, 2),
    "zero bubble": (ScheduleInterleavedZeroBubble, 1),
}
"""PyTorch's class, and how many stages each rank has."""

WAYS: Final = ("class", "runtime", "ours")
"""Who runs it; their order turns from round to round."""


def in_the_order_of(schedule: Any, name: str, K: int) -> ge.Schedule:
    """PyTorch's schedule as one of ours: its GPipe runs backwards from 0 to M-1, ours from M-1 to 0."""
    if name == "GPipe":
        return ge.Schedule([[ge.Op(kind, m, k) for kind in "FB" for m in range(M)] for k in range(K)], name=name)
    if name == "1F1B":
        return ge.one_f_one_b(K, M)
    ops = [
        [re.fullmatch(r"(\d+)([FBIW])(\d+)", str(one)) for one in row if one]
        for row in schedule.pipeline_order.values()
    ]
    rows = [[ge.Op(found[2], int(found[3]), int(found[1])) for found in row if found] for row in ops]
    return ge.Schedule(rows, name=name)


def works(name: str, rank: int, K: int, N: int) -> dict[str, Work]:
    """A step by PyTorch's class, one by its runtime, and one by our pipeline."""
    kind, V = THEIRS[name]
    S = K * V
    x, y = batch(N)
    example = torch.empty(N // M, WIDTH)
    how = {"loss_fn": lambda out, target: LOSS(out, target) / M, "scale_grads": False}

    def stages_of(layers: nn.Sequential) -> list[PipelineStage]:
        return [
            PipelineStage(
                layers[k * LAYERS // S : (k + 1) * LAYERS // S],
                k,
                S,
                torch.device("cpu"),
                input_args=(example.clone().requires_grad_(k > 0),),
                output_args=(example.clone().requires_grad_(),),
            )
            for k in range(rank, S, K)
        ]

    def driven(schedule: Any, stages: list[PipelineStage]) -> Work:
        def step() -> None:
            for stage in stages:
                stage.submod.zero_grad()
            targets, losses = (y, []) if rank == K - 1 else (None, None)
            schedule.step(*([x] if rank == 0 else []), target=targets, losses=losses, return_outputs=False)
            if losses:
                torch.stack([loss.detach() for loss in losses]).sum()

        return step

    classes, by_runtime = stages_of(model()), stages_of(model())
    schedule = kind(classes[0] if name in ("GPipe", "1F1B") else classes, M, **how)
    order = in_the_order_of(schedule, name, K)
    runtime = Runtime(by_runtime, M, **how)
    runtime._prepare_schedule_with_comms(lower(order))
    pipeline = Pipeline(model(), order, LOSS, x)

    def ours() -> None:
        pipeline.zero_grad()
        pipeline.step(x, y)

    found = {"class": driven(schedule, classes), "runtime": driven(runtime, by_runtime), "ours": ours}
    for work in found.values():
        work()
    for stages in (classes, by_runtime):
        same_gradients([stage.submod for stage in stages], pipeline.parameters())
    return found


def same_gradients(pieces: Any, weights: Any) -> None:
    """Check that what is compared does the same."""
    expected = [weight.grad for weight in nn.ModuleList(pieces).parameters()]
    for weight, grad in zip(weights, expected, strict=True):
        torch.testing.assert_close(weight.grad, grad)


def process(rank: int, K: int, N: int, port: int, pipe: Connection) -> None:
    """Makes the step it is told to and says how long that took, by the clock and of the CPU, until told to stop."""
    torch.set_num_threads(1)
    talk_by_loopback()
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=K)
    work = {name: works(name, rank, K, N) for name in THEIRS}
    gc.disable()
    pipe.send("ready")
    while (told := pipe.recv()) != "stop":
        name, way = told
        gc.collect()
        dist.barrier()
        before = time.perf_counter(), time.process_time()
        work[name][way]()
        pipe.send((time.perf_counter() - before[0], time.process_time() - before[1]))
    dist.destroy_process_group()


class Processes:
    """K ranks that wait to be told what to do; use it in `with`."""

    def __init__(self, K: int, N: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        context = mp.get_context("spawn")
        self._pipes, self._started = [], []
        for rank in range(K):
            here, there = context.Pipe()
            started = context.Process(target=process, args=(rank, K, N, port, there), daemon=True)
            started.start()
            self._pipes.append(here)
            self._started.append(started)

    def __enter__(self) -> Processes:
        self._heard()
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send("stop")
        for started in self._started:
            started.join(20)
            started.kill()

    def step(self, name: str, way: str) -> tuple[float, float, float]:
        """Milliseconds by the clock, those of the CPU, and megabytes carried."""
        before = carried()
        for pipe in self._pipes:
            pipe.send((name, way))
        took = self._heard()
        wall, cpu = max(wall for wall, _ in took), sum(cpu for _, cpu in took)
        return 1e3 * wall, 1e3 * cpu, (carried() - before) / 1e6

    def _heard(self) -> list[Any]:
        for pipe in self._pipes:
            if not pipe.poll(120):
                raise TimeoutError("a process does not answer for 120 s")
        return [pipe.recv() for pipe in self._pipes]


def carried() -> float:
    """Bytes that the loopback interface has sent so far; NaN where the system does not count them this way."""
    with suppress(OSError):
        for line in Path("/proc/net/dev").read_text().splitlines():
            name, _, counts = line.partition(":")
            if name.strip() == "lo":
                return float(counts.split()[8])
    return float("nan")


def measure(K: int, N: int, rounds: int) -> None:
    """A row for each schedule."""
    found: dict[str, dict[str, list[tuple[float, float, float]]]] = {name: defaultdict(list) for name in THEIRS}
    with Processes(K, N) as processes:
        for number in range(-WARM_UP, rounds):
            for name in THEIRS:
                for way in WAYS[number % 3 :] + WAYS[: number % 3]:
                    took = processes.step(name, way)
                    if number >= 0:
                        found[name][way].append(took)
    for name, ways in found.items():
        wall, cpu, sent = ({way: [one[i] for one in took] for way, took in ways.items()} for i in range(3))
        print(
            f"{K:2} {N:5}  {name:<12}",
            *(spread(wall[way]) for way in ("class", "ours")),
            *(ratio(wall[way], wall["ours"]) for way in ("class", "runtime")),
            ratio(cpu["runtime"], cpu["ours"]),
            f"{statistics.median(sent['class']):8.2f} {statistics.median(sent['ours']):8.2f}",
            flush=True,
        )


def ratio(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """Pair by pair: the median, and the two sorted ratios between which the true one lies in 95 of 100 cases."""
    found = sorted(b / a for a, b in zip(theirs, ours, strict=True))
    place = max(0, int(len(found) / 2 - 0.98 * len(found) ** 0.5))
    return f"{statistics.median(found):.3f} ({found[place]:.3f} to {found[-1 - place]:.3f})"


def main(rounds: int = ROUNDS, *sizes: int) -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{machine()}, torch {torch.__version__}, one BLAS thread a process, load {load:.1f} at the start")
    print(f"M={M}, {LAYERS} x (Linear({WIDTH}), ReLU), {rounds} rounds of three steps")
    print("Median (interquartile range; of ratios the interval that has the true median in 95 of 100 cases)\n")
    heads = [f"{head:>17}" for head in ("its class, ms", "Pipeline.step, ms")]
    heads += [f"{head:>22}" for head in ("ratio to its class", "to its runtime", "of CPU, to its runtime")]
    print(f" K     N  {'':<12}", *heads, f"{'MB carried':>17}")
    for N in sizes or SAMPLES:
        for K in RANKS:
            measure(K, N, rounds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
