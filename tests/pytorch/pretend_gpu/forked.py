"""A test in a process of its own: a device can be pretended only before the first backward, and races stay noted.

The processes are forked from one that has PyTorch and the pretend GPU loaded and has run nothing.
"""

import faulthandler
import multiprocessing
import sys
import traceback
import warnings
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from tests.processes import PATIENCE

SECONDS = 300
"""After which a test counts as hanging; all threads then say where they are."""

HERE = __name__.rpartition(".")[0]


def run(module: str, name: str, arguments: dict[str, Any]) -> str:
    """Call function `name` of `module` in a new process; returns the traceback if it raises, else ""."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{HERE}.loaded"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, module, name, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        told = receiver.recv() if receiver.poll(SECONDS + PATIENCE) else "did not even say that it hangs"
    except EOFError:
        process.join(PATIENCE)
        told = f"ended with exit code {process.exitcode}, hanging or crashed; what it said is on standard error"
    finally:
        process.kill()
        process.join()
        receiver.close()
    return str(told)


def _child(sender: Connection, module: str, name: str, arguments: dict[str, Any]) -> None:
    faulthandler.enable(sys.__stderr__)
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.__stderr__)
    import_module(f"{HERE}.loaded")
    # Of PyTorch's own loss, where it runs on a device from outside.
    warnings.filterwarnings("ignore", message="An output with one or more elements was resized")
    try:
        getattr(import_module(module), name)(**arguments)
    except BaseException:
        sender.send(traceback.format_exc())
    else:
        sender.send("")
    finally:
        faulthandler.cancel_dump_traceback_later()
