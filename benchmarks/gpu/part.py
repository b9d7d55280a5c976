"""What the process of one part does: start a stand-in for the GPU, if there is to be one, and run the part.

A stand-in is a module with `start()`, which puts a pretended GPU under `torch.cuda`, and `faults()`, one sentence for
everything that it noticed and a number does not show, such as a missing wait.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path

from benchmarks.gpu.findings import Findings
from benchmarks.gpu.sizes import Sizes

NO_GPU = 3
"""The exit status of a part that found none."""


def main(name: str, sizes: str, stand_in: str, file: str) -> None:
    gc.disable()  # until all is imported
    pretended = import_module(stand_in) if stand_in else None
    if pretended:
        pretended.start()
        # Of PyTorch's own loss, where it runs on a device from outside.
        warnings.filterwarnings("ignore", message="An output with one or more elements was resized")
    found = Findings(Path(file), bool(pretended))
    part = import_module(name)
    gc.collect()
    gc.freeze()  # else the collector would go through all modules before each call that is timed
    gc.enable()
    found.about((part.__doc__ or name).splitlines()[0])
    part.run(found, Sizes(*json.loads(sizes)))
    if pretended:
        faults = pretended.faults()
        found.check("order", faults[0] if faults else "every access was ordered by a wait", not faults)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print("PyTorch is not installed here; `make gpu` installs it")
        sys.exit(NO_GPU)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # all is said: what threads of autograd and a device do while a program goes down is no result
