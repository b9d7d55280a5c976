"""Ranks of a job as a user starts them, and none left when a test is over."""

import os
import signal
import subprocess
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests import ports, preloaded
from tests.processes import until

ROOT = Path(__file__).resolve().parents[2]
JOB = ("-m", "gpipe_edu", "train", "--partitions", "2", "--micro-batches", "4", "--layers", "4", "--epochs", "1")


def environment(**more):
    known = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**known, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "120", **more}


@contextmanager
def process(program, known):
    """`program` in the environment `known`; killed at the end."""
    found = subprocess.Popen(
        [preloaded.python(), *program], env=known, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield found
    finally:
        found.kill()
        found.wait()
        found.stdout.close()


@contextmanager
def ranks(size, *programs, port=None, started=None):
    """`programs[k]`, or the one for all, as rank k of `size`, without torchrun; those in `started` only."""
    common = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    common["MASTER_PORT"] = str(port or ports.free())
    with ExitStack() as stack:
        processes = {}
        for k in range(size) if started is None else started:
            known = environment(RANK=str(k), LOCAL_RANK=str(k), **common)
            processes[k] = stack.enter_context(process(programs[k % len(programs)], known))
        yield processes


@contextmanager
def torchrun(*arguments, size=2):
    """As one types it; the group of processes is killed at the end."""
    python = preloaded.python()
    command = [
        python,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={size}",
        f"--master-port={ports.free()}",
    ]
    process = subprocess.Popen(
        [*command, *arguments],
        env=environment(PYTHON_EXEC=python),  # with which torchrun starts the ranks
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(file):
    """Until `file` exists: a process has come so far."""
    until(Path(file).exists)
