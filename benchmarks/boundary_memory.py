"""How much a rank's memory grows with M, for micro-batches of one size, where 1F1B has two of them in flight.

    python -m benchmarks.boundary_memory        # two gloo processes, a minute

One layer makes 8 MB out of each micro-batch's number, which cross the one boundary, and their gradients come back; the
next layer takes their mean. So all memory is that of messages, and of the few micro-batches that 1F1B has under way. It
prints the peak of each rank's resident memory, less that before the first step, in boundaries of 8 MB. The C library is
told to give such blocks back at once: by default it keeps them for blocks of the same size, and can seldom reuse them.
"""

from __future__ import annotations

import multiprocessing as mp
import os
import resource
import tempfile
from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

import gpipe_edu as ge
from benchmarks.measuring import machine
from gpipe_edu.cluster import Pipeline
from gpipe_edu.process.loopback import talk_by_loopback

BYTES: Final = 8 * 2**20
MICRO_BATCHES: Final = (4, 16, 64)


class Wide(nn.Module):
    """From one number of a sample to many, or back to one."""

    def __init__(self, back: bool) -> None:
        super().__init__()
        self.weight, self.back = nn.Parameter(torch.ones(1)), back

    def forward(self, x: Tensor) -> Tensor:
        """x: (N, 1), or (N, many) if `back`."""
        return x.mean(1, keepdim=True) * self.weight if self.back else self.weight * x.expand(-1, BYTES // 4)


def rank(k: int, M: int, file: str, found: mp.Queue[tuple[int, float]]) -> None:
    """Two steps of rank k."""
    talk_by_loopback()
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=k, world_size=2)
    torch.set_num_threads(1)
    pipeline = Pipeline(
        nn.Sequential(Wide(False), Wide(True)), ge.one_f_one_b(2, M), nn.functional.mse_loss, torch.ones(1, 1)
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        pipeline.step(torch.ones(M, 1), torch.zeros(M, 1))
    found.put((k, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / BYTES))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Print a line for each M."""
    print(machine())
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(BYTES // 8)
    context = mp.get_context("spawn")
    for M in MICRO_BATCHES:
        found: mp.Queue[tuple[int, float]] = context.Queue()
        with tempfile.TemporaryDirectory() as folder:
            ranks = [context.Process(target=rank, args=(k, M, f"{folder}/meet", found)) for k in range(2)]
            for one in ranks:
                one.start()
            peaks = dict(found.get() for _ in ranks)
            for one in ranks:
                one.join()
        print(f"M = {M:>3}: rank 0 {peaks[0]:6.1f}, rank 1 {peaks[1]:6.1f} boundaries")


if __name__ == "__main__":
    main()
