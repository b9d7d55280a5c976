"""A rank that trains for long, and what goes wrong with it: `python -m tests.cluster.faulty FOLDER WHAT`."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import sleep

import torch
import torch.distributed as dist
from torch import nn

import gpipe_edu as ge
from gpipe_edu.cluster import Pipeline, watch
from gpipe_edu.cluster.ranks import Ranks
from tests.processes import PATIENCE, until


def go_on(pipeline, x, y):
    """As a loop does that skips a step when memory is out, a thousand times."""
    for _ in range(1000):
        with suppress(RuntimeError):
            pipeline.step(x, y)


def go_on_whatever_happens(pipeline, x, y):
    for _ in range(1000):
        with suppress(BaseException):
            pipeline.step(x, y)


def leave(pipeline, x, y):
    with suppress(Exception):
        for _ in range(1000):
            pipeline.step(x, y)


def wait_for_the_others(pipeline, x, y):
    """For which they have a while; not as long as a user has here."""
    watch._STUCK = 1.0
    leave(pipeline, x, y)
    dist.barrier()


CAUGHT = {one.__name__: one for one in (go_on, go_on_whatever_happens, leave, wait_for_the_others)}
"""What loops do that catch what a layer raises."""


def wait_until_seen(folder, size):
    """Until the last of `size` ranks is in its trap, the others wait for it, and rank 0 has heard and told so."""
    until((folder / "there").exists)
    seen = [folder / f"seen {rank}" for rank in range(size)]
    for file in seen:
        file.unlink(missing_ok=True)
    *others, last = seen
    until(lambda: all(_text(file).endswith("waits") for file in others) and " at F1 of " in _text(last))


def _text(file):
    return file.read_text() if file.exists() else ""


def write_what_rank_0_hears(folder):
    """A rank's "seen" has what its last heartbeat told; rank 0's own is written when the others were told of it."""
    note = watch.Coordinator._note

    def noted(self, rank, doing):
        note(self, rank, doing)
        (folder / f"seen {rank}").write_text(f"{doing.where} {'waits' if doing.waits else 'works'}")

    watch.Coordinator._note = noted


class Trap(nn.Module):
    """Does `what` at the third step's second micro-batch; it is the last layer."""

    def __init__(self, what, folder):
        super().__init__()
        self.what, self.folder, self.calls = what, folder, 0

    def forward(self, x):
        if x.device.type != "meta":
            self.calls += 1
        if self.calls == 10:
            (self.folder / "there").touch()
            if self.what == "raise" or self.what in CAUGHT:
                raise (RuntimeError if self.what in CAUGHT else ValueError)("a layer went wrong")
            if self.what == "os._exit(0)":
                os._exit(0)
            if self.what.startswith("sys.exit"):
                sys.exit(int(self.what[-2]))
            sleep(3 * PATIENCE)
        return x


def main(folder, what):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    (folder / f"rank {rank}").write_text(str(os.getpid()))
    torch.manual_seed(0)

    def loss(output, target):
        if what == "raise in the loss":
            (folder / "there").touch()
            raise ValueError("the loss went wrong")
        return nn.functional.cross_entropy(output.detach() if what == "detach" else output, target)

    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2), Trap(what, folder))
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    schedule = ge.gpipe(size, 4) if what == "other schedule" and rank == 1 else ge.one_f_one_b(size, 4)
    write_what_rank_0_hears(folder)
    for other in os.environ.get("BESIDE", "").split():
        until((folder / f"rank {other}").exists)
    with Ranks(patience=float(os.environ.get("PATIENCE", PATIENCE))) as joined:
        joined.agree({"schedule": schedule})
        pipeline = Pipeline(net, schedule, loss, x)
        joined.now = lambda: pipeline.now
        if what in CAUGHT:
            CAUGHT[what](pipeline, x, y)
        for _ in range(2 if what == "fewer batches" and pipeline.last else 5):
            pipeline.step(x, y)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(exist_ok=True)
    main(Path(sys.argv[1]), sys.argv[2])
