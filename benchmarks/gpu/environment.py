"""What is there: the GPU, its driver, PyTorch, and whether streams run at the same time."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

import torch

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.ops import gpu, seconds
from benchmarks.gpu.part import NO_GPU
from benchmarks.gpu.sizes import Sizes
from gpipe_edu.pytorch.place import usable_gpus


def run(found: Findings, sizes: Sizes) -> None:
    if not usable_gpus():
        built = (
            f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA: `make clean`, then `make gpu`"
        )
        print(f"not run: PyTorch {torch.__version__} finds no GPU that it can use here; it is built {built}")
        sys.exit(NO_GPU)
    found.figure("card", torch.cuda.get_device_name(0))
    found.figure("GPUs", str(usable_gpus()))
    found.figure("driver", driver())
    found.figure("PyTorch", f"{torch.__version__}, CUDA {torch.version.cuda}")
    found.figure("Python", platform.python_version())
    found.figure("memory", f"{torch.cuda.get_device_properties(0).total_memory / 2**30:.1f} GiB")
    one, two = asleep(sizes, 1), asleep(sizes, 2)
    found.bar("two streams that sleep, beyond the time of one", 100 * (two / one - 1), 50, " %", timed=True)


def driver() -> str:
    """As nvidia-smi says."""
    if not shutil.which("nvidia-smi"):
        return "unknown, as nvidia-smi is not there"
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.split()
    return told[0] if told else "unknown to nvidia-smi"


def asleep(sizes: Sizes, count: int) -> float:
    """Seconds in which so many streams have slept, each ten times."""
    streams = [torch.cuda.Stream(gpu()) for _ in range(count)]

    def sleep() -> None:
        for stream in streams:
            with torch.cuda.stream(stream):
                for _ in range(10):
                    torch.cuda._sleep(sizes.cycles)

    sleep()
    return seconds(sleep)
