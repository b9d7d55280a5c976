"""The PyTorch engine against one device, torchgpipe and torch.distributed.pipelining, on two CPU workers.

Why: on a CPU PyTorch runs a backward in one thread, so a pipeline gains only if every stage runs its own. The anchor
is micro-batched accumulation on one device, the same work without a pipeline; the ideal speed-up over it is
KM/(M+K-1), without recompute. Two processes and two threads are compared with the same number of BLAS threads: one
each. The control row says how much of the ideal factor of two the machine gives two threads that never wait. A
pipeline keeps K devices busy M/(M+K-1) of the time, so that share of the control is what it can reach on this machine.

    python -m benchmarks.engines            # needs torchgpipe==0.0.7 for its rows; about four minutes

GPipe's order holds all activations at once; glibc gives them back to the system after the step, and the next one pays
for page faults. To see how much, let it keep the memory, with this in the command's environment:

    MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=33554432

Every variant makes one step (forward, backward, no update) per round, all in turn, in one process; the distributed ones
in two waiting processes of their own, which are told when to step.
"""

from __future__ import annotations

import copy
import os
import socket
import statistics
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from benchmarks.measuring import in_turn, machine, spread
from gpipe_edu.pytorch import GPipe
from gpipe_edu.pytorch.workers import Workers

K, M, LAYERS, WIDTH, ROUNDS = 2, 8, 16, 512, 15
LOSS = nn.CrossEntropyLoss()
CONTROL = "control: two halves, no pipeline"


def model() -> nn.Sequential:
    """16 x (Linear(512), ReLU), always the same weights."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)))


def batch(N: int) -> tuple[Tensor, Tensor]:
    """N random samples and labels."""
    torch.manual_seed(1)
    return torch.randn(N, WIDTH), torch.randint(0, WIDTH, (N,))


def on_one_device(N: int) -> dict[str, Callable[[], object]]:
    x, y = batch(N)
    whole, cut = model(), model()

    def plain() -> None:
        whole.zero_grad()
        LOSS(whole(x), y).backward()

    def accumulate() -> None:
        cut.zero_grad()
        for piece, target in zip(x.chunk(M), y.chunk(M), strict=True):
            (LOSS(cut(piece), target) / M).backward()

    return {"one device, accumulation": accumulate, "one device, whole batch": plain}


def control(N: int) -> dict[str, Callable[[], object]]:
    """Two threads with half of the layers each and nothing to wait for: what two workers can reach on this machine."""
    x, _ = batch(N)
    halves = [model()[: LAYERS // 2], model()[LAYERS // 2 :]]
    workers = Workers(K, threads=1)

    def half(layers: nn.Sequential) -> None:
        layers.zero_grad()
        for piece in x.chunk(M):
            layers(piece.detach().requires_grad_()).sum().backward()

    def both() -> None:
        workers.run([partial(half, layers) for layers in halves], abort=lambda: None)

    return {CONTROL: both}


def ours(N: int) -> dict[str, Callable[[], object]]:
    x, y = batch(N)
    variants: dict[str, Callable[[], object]] = {}
    for schedule in ("naive", "gpipe", "1f1b", "zero_bubble"):
        for checkpoint in ("never", "except_last", "always") if schedule in ("gpipe", "1f1b") else ("never",):
            pipe = GPipe(model(), K, M, devices=["cpu"], schedule=schedule, checkpoint=checkpoint)

            def step(pipe: GPipe = pipe) -> None:
                pipe.zero_grad()
                pipe.step(x, y, LOSS)

            variants[f"ours, step, {schedule}, {checkpoint}"] = step
            if schedule == "gpipe":

                def transparent(pipe: GPipe = pipe) -> None:
                    pipe.zero_grad()
                    LOSS(pipe(x), y).backward()

                variants[f"ours, transparent, {checkpoint}"] = transparent
    return variants


def torchgpipe(N: int) -> dict[str, Callable[[], object]]:
    try:
        from torchgpipe import GPipe as TorchGPipe
    except ModuleNotFoundError:
        print("torchgpipe is not installed: its rows are left out")
        return {}
    x, y = batch(N)
    variants: dict[str, Callable[[], object]] = {}
    for checkpoint in ("never", "except_last", "always"):
        half = LAYERS // 2
        pipe = TorchGPipe(model(), [half, half], devices=["cpu", "cpu"], chunks=M, checkpoint=checkpoint)

        def step(pipe: nn.Module = pipe) -> None:
            pipe.zero_grad()
            LOSS(pipe(x), y).backward()

        variants[f"torchgpipe 0.0.7, {checkpoint}"] = step
    return variants


def rank_process(rank: int, port: int, N: int, pipe: Connection) -> None:
    """One stage of torch.distributed.pipelining: makes the step it is told to, until told to stop."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=K)
    half = LAYERS // K
    stage_model = copy.deepcopy(model()[rank * half : (rank + 1) * half])
    x, y = batch(N)
    example = torch.randn(N // M, WIDTH)
    inside = example if rank == 0 else example.clone().requires_grad_()
    stage = PipelineStage(
        stage_model, rank, K, torch.device("cpu"), input_args=(inside,), output_args=(example.clone().requires_grad_(),)
    )
    schedules = {
        kind.__name__: kind(stage, M, loss_fn=lambda out, target: LOSS(out, target) / M, scale_grads=False)
        for kind in (ScheduleGPipe, Schedule1F1B)
    }
    pipe.send("ready")
    while (name := pipe.recv()) != "stop":
        stage_model.zero_grad()
        schedules[name].step(*([x] if rank == 0 else []), target=y if rank == K - 1 else None)
        pipe.send("done")
    dist.destroy_process_group()


class Distributed:
    """Two processes that wait to be told to step."""

    def __init__(self, N: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        context = mp.get_context("spawn")
        self.pipes, self.processes = [], []
        for rank in range(K):
            here, there = context.Pipe()
            process = context.Process(target=rank_process, args=(rank, port, N, there), daemon=True)
            process.start()
            self.pipes.append(here)
            self.processes.append(process)
        self._hear()

    def step(self, name: str) -> None:
        """One step of the schedule of that name."""
        for pipe in self.pipes:
            pipe.send(name)
        self._hear()

    def stop(self) -> None:
        """End both processes."""
        for pipe in self.pipes:
            pipe.send("stop")
        for process in self.processes:
            process.join(20)

    def _hear(self) -> None:
        for pipe in self.pipes:
            if not pipe.poll(120):
                raise TimeoutError("a process of torch.distributed.pipelining does not answer")
            pipe.recv()


def main() -> None:
    torch.set_num_threads(1)
    ideal = K * M / (M + K - 1)
    allocator = ", ".join(f"{name}={value}" for name, value in os.environ.items() if name.startswith("MALLOC_"))
    print(f"{machine()}, torch {torch.__version__}, one BLAS thread a worker; allocator: {allocator or 'default'}")
    print(
        f"K={K}, M={M}, {LAYERS} x (Linear({WIDTH}), ReLU); ideal speed-up KM/(M+K-1) = {ideal:.2f} without recompute"
    )
    for N in (512, 2048):
        distributed = Distributed(N)
        try:
            variants = on_one_device(N) | control(N) | ours(N) | torchgpipe(N)
            for name in ("ScheduleGPipe", "Schedule1F1B"):
                variants[f"torch.distributed, {name}"] = partial(distributed.step, name)
            found = in_turn(variants, ROUNDS, warm_up=4)
        finally:
            distributed.stop()
        anchor = found["one device, accumulation"]
        # Of every round the ratio to the anchor's step of that round: a slow moment hits both.
        gains = {name: statistics.median(a / t for a, t in zip(anchor, found[name], strict=True)) for name in found}
        reachable = gains[CONTROL] * M / (M + K - 1)
        print(f"\nN={N:<6} {'':<30} {'ms: median (IQR)':>20} {'speed-up':>9} {'of ideal':>9} {'of reachable':>13}")
        for name, gain in gains.items():
            print(f"{name:<39} {spread(found[name]):>20} {gain:9.2f} {gain / ideal:9.2f} {gain / reachable:13.2f}")


if __name__ == "__main__":
    main()
