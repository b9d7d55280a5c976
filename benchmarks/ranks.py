"""What our layer over torch.distributed.pipelining costs, on two gloo processes.

Three ways to run the same schedule of the same stages on the same two processes: our `Pipeline.step`; PyTorch's own
ScheduleGPipe and Schedule1F1B, driven directly with static shapes; and, for scale, `gpipe_edu.pytorch.GPipe` with two
threads and plain PyTorch on one device, in a process of its own. All in one run, in an order that changes every round.

    python -m benchmarks.ranks [ROUNDS]

Each process has one BLAS thread. Ranks start a step together, from a barrier, and it ends with the later of them; how
they are told to start is no part of it. CPU time (user and system, of both ranks together) stands beside the wall
clock: on a busy machine a wait for a core is no cost of ours, and CPU time leaves it out. gloo's own threads are in it.
"""

from __future__ import annotations

import os
import socket
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

import gpipe_edu as ge
from benchmarks.engines import LAYERS, LOSS, WIDTH, K, M, batch, model
from benchmarks.measuring import in_turn, machine, spread
from gpipe_edu.cluster import Pipeline
from gpipe_edu.process.loopback import talk_by_loopback
from gpipe_edu.pytorch import GPipe

Work = Callable[[], object]

N: Final = 512
"""Few samples: the smaller the ops, the larger our share of the step."""

WARM_UP: Final = 3

ORDERS = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}
AS_THEIRS = {
    "GPipe": ge.Schedule([[ge.Op(kind, m, k) for kind in "FB" for m in range(M)] for k in range(K)], name="GPipe"),
    "1F1B": ge.one_f_one_b(K, M),
}
"""The same orders as schedules of ours: PyTorch's GPipe runs its backwards from 0 to M-1, ours from M-1 to 0."""


def driven_directly(rank: int) -> dict[str, Work]:
    half = LAYERS // K
    layers = model()[rank * half : (rank + 1) * half]
    x, y = batch(N)
    example = torch.empty(N // M, WIDTH)
    takes = example.clone().requires_grad_(rank > 0)
    gives = example.clone().requires_grad_()

    def step(schedule: ScheduleGPipe | Schedule1F1B) -> None:
        layers.zero_grad()
        targets, losses = (y, []) if rank == K - 1 else (None, None)
        schedule.step(*([x] if rank == 0 else []), target=targets, losses=losses, return_outputs=False)
        if losses:
            torch.stack([loss.detach() for loss in losses]).sum()

    work: dict[str, Work] = {}
    for name, kind in ORDERS.items():
        stage = PipelineStage(layers, rank, K, torch.device("cpu"), input_args=(takes,), output_args=(gives,))
        schedule = kind(stage, M, loss_fn=lambda out, target: LOSS(out, target) / M, scale_grads=False)
        work[f"{name}, driven directly"] = partial(step, schedule)
    return work


def by_pipeline() -> dict[str, Work]:
    x, y = batch(N)

    def step(pipeline: Pipeline) -> None:
        pipeline.zero_grad()
        pipeline.step(x, y)

    return {
        f"{name}, Pipeline.step": partial(step, Pipeline(model(), schedule, LOSS, x))
        for name, schedule in AS_THEIRS.items()
    }


def in_one_process() -> dict[str, Work]:
    x, y = batch(N)
    single = model()

    def alone() -> None:
        single.zero_grad()
        for piece, target in zip(x.chunk(M), y.chunk(M), strict=True):
            (LOSS(single(piece), target) / M).backward()

    def threads(pipe: GPipe) -> None:
        pipe.zero_grad()
        pipe.step(x, y, LOSS)

    work: dict[str, Work] = {"plain PyTorch, one device, accumulation": alone}
    for name, schedule in AS_THEIRS.items():
        pipe = GPipe(model(), K, M, devices=["cpu"], schedule=schedule)
        work[f"{name}, gpipe_edu.pytorch.GPipe, threads"] = partial(threads, pipe)
    return work


def process(rank: int, port: int, pipe: Connection) -> None:
    """Makes the step it is told to and says how long that took, by the clock and of the CPU, until told to stop."""
    torch.set_num_threads(1)
    talk_by_loopback()
    if rank < K:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=K)
        work = driven_directly(rank) | by_pipeline()
    else:
        work = in_one_process()
    pipe.send(list(work))
    while (name := pipe.recv()) != "stop":
        if rank < K:
            dist.barrier()
        before = time.perf_counter(), time.process_time()
        work[name]()
        pipe.send((time.perf_counter() - before[0], time.process_time() - before[1]))
    if rank < K:
        dist.destroy_process_group()


class Processes:
    """Two ranks and one process without, that wait to be told what to do; use it in `with`.

    wall, cpu: the milliseconds that each step took, by name.
    """

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        context = mp.get_context("spawn")
        self._pipes, self._started = [], []
        self.wall: dict[str, list[float]] = defaultdict(list)
        self.cpu: dict[str, list[float]] = defaultdict(list)
        for rank in range(K + 1):
            here, there = context.Pipe()
            started = context.Process(target=process, args=(rank, port, there), daemon=True)
            started.start()
            self._pipes.append(here)
            self._started.append(started)
        ranks, alone = self._heard(self._pipes[:K])[0], self._heard(self._pipes[K:])[0]
        self.work: Mapping[str, Work] = {
            **{name: partial(self._do, name, self._pipes[:K]) for name in ranks},
            **{name: partial(self._do, name, self._pipes[K:]) for name in alone},
        }

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send("stop")
        for started in self._started:
            started.join(20)
            started.kill()

    def _do(self, name: str, pipes: list[Connection]) -> None:
        for pipe in pipes:
            pipe.send(name)
        took = self._heard(pipes)
        self.wall[name].append(1e3 * max(wall for wall, _ in took))
        self.cpu[name].append(1e3 * sum(cpu for _, cpu in took))

    @staticmethod
    def _heard(pipes: list[Connection]) -> list:
        for pipe in pipes:
            if not pipe.poll(120):
                raise TimeoutError("a process does not answer for 120 s")
        return [pipe.recv() for pipe in pipes]


def main(rounds: int) -> None:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{machine()}, torch {torch.__version__}, one BLAS thread a process, load {load:.1f} at the start")
    print(f"K={K}, M={M}, {LAYERS} x (Linear({WIDTH}), ReLU), {rounds} rounds; against driven directly, round by round")
    with Processes() as processes:
        in_turn(processes.work, rounds + WARM_UP)
        wall, cpu = (
            {name: found[WARM_UP:] for name, found in all_.items()} for all_ in (processes.wall, processes.cpu)
        )
    print(f"\nN={N:<5} {'':<34} {'wall ms: median (IQR)':>22} {'ratio (IQR)':>20} {'CPU ms':>20} {'ratio (IQR)':>20}")
    for name in processes.work:
        base = f"{name.partition(',')[0]}, driven directly"
        row = [f"{name:<41}", f"{spread(wall[name]):>22}", ratio(wall, name, base)]
        print(*row, f"{spread(cpu[name]):>20}", ratio(cpu, name, base))


def ratio(found: Mapping[str, list[float]], name: str, base: str) -> str:
    """Of each round, the ratio to the base's step in that round: a slow moment hits both."""
    if base not in found or name == base:
        return " " * 20
    low, middle, high = statistics.quantiles(
        [a / b for a, b in zip(found[name], found[base], strict=True)], n=4, method="inclusive"
    )
    return f"{middle:12.3f} ({high - low:5.3f})"


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 41)
