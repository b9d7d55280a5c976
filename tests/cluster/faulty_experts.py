"""A rank with experts that trains for long; one fails on rank 3: `python -m tests.cluster.faulty_experts WHAT`."""

import os
import signal
import sys

import gpipe_edu as ge
from gpipe_edu.cluster.ranks import Ranks
from tests import mixture
from tests.processes import PATIENCE

from .expert_jobs import PARTS, pipeline_of, stepped


def main(what):
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) == 5:  # the second micro-batch of the second step
            if what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("an expert went wrong")

    with Ranks(patience=PATIENCE) as joined:
        (x, y), whole = mixture.samples(13), mixture.blocks(mixture.Carrying, 2)
        if joined.rank == 3:
            whole[1].experts["3"].register_forward_pre_hook(fail)
        pipeline, replica = pipeline_of(ge.one_f_one_b(2, 3), whole)
        joined.now = lambda: pipeline.now
        for _ in range(1000):
            stepped(pipeline, x[PARTS[replica]], y[PARTS[replica]])


if __name__ == "__main__":
    main(sys.argv[1])
