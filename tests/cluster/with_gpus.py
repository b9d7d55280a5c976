"""A rank on a machine that seems to have GPUs: `python -m tests.cluster.with_gpus GPUS_PER_RANK WISH`.

It says which device and which backend it would take; its messages go through gloo, for no GPU is there.
"""

import os
import sys

import torch
import torch.distributed as dist

from gpipe_edu.cluster.ranks import Ranks


def main(gpus_per_rank, wish):
    taken = {}
    join = dist.init_process_group

    def joined_by_gloo(backend, **others):
        taken["backend"] = backend
        join("gloo", **others)

    dist.init_process_group = joined_by_gloo
    gpus = int(gpus_per_rank.split(",")[int(os.environ["RANK"])])
    torch.cuda.is_available = lambda: gpus > 0
    torch.cuda.device_count = lambda: gpus
    torch.cuda.set_device = lambda device: taken.update(gpu=device)
    with Ranks(device=wish) as ranks:
        print(f"{ranks.device} {taken['backend']} {taken.get('gpu')}")


if __name__ == "__main__":
    main(*sys.argv[1:])
