"""Ranks of a job as a user starts them, and none left when a test is over."""

import os
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from tests import preloaded

ROOT = Path(__file__).resolve().parents[2]
JOB = ("-m", "gpipe_edu", "train", "--partitions", "2", "--micro-batches", "4", "--layers", "4", "--epochs", "1")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def environment(**more):
    known = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    return {**known, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "120", **more}


@contextmanager
def ranks(size, *programs, port=None, started=None):
    """`programs[k]`, or the one for all, as rank k of `size`, without torchrun; those in `started` only."""
    port = port or free_port()
    processes = {}
    try:
        for k in range(size) if started is None else started:
            processes[k] = subprocess.Popen(
                [preloaded.python(), *programs[k % len(programs)]],
                env=environment(
                    RANK=str(k),
                    LOCAL_RANK=str(k),
                    WORLD_SIZE=str(size),
                    LOCAL_WORLD_SIZE=str(size),
                    MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=str(port),
                ),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        yield processes
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@contextmanager
def torchrun(*arguments, size=2):
    """As one types it; the group of processes is killed at the end."""
    python = preloaded.python()
    command = [
        python,
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={size}",
        f"--master-port={free_port()}",
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


def wait_for(file, seconds=60):
    """Until `file` exists: a process has come so far."""
    end = monotonic() + seconds
    while not Path(file).exists():
        if monotonic() > end:
            raise TimeoutError(f"{file} did not appear within {seconds} s")
        sleep(0.05)
