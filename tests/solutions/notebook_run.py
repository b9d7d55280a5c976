"""A notebook, or the master of one as a script, in a process that is forked from one with its imports done."""

import json
import os
import runpy
import sys
from concurrent.futures import ThreadPoolExecutor
from queue import Empty

from .warm import Warm

MODULES = ("torch._dynamo", "matplotlib.pyplot", "ipywidgets", "ipykernel.inprocess.manager")
"""Not gpipe_edu.course: it looks for its kernel when it is loaded."""


class Runner:
    """`script` and `notebook` run such things one after another, each in a process of its own."""

    def __init__(self):
        self._warm = Warm(*MODULES)
        self.close = self._warm.close

    def script(self, path):
        """How it ends, and what it prints to stdout and to stderr."""
        return self._run({"script": str(path)})

    def notebook(self, sources, folder):
        """Errors, as name, traceback and source of the cell, and all messages of a kernel that runs these cells."""
        status, said, complaints = self._run({"cells": sources, "folder": str(folder)})
        assert status == 0, complaints
        messages = json.loads(said.splitlines()[-1])
        errors = [(said["ename"], said["traceback"], source) for source, kind, said in messages if kind == "error"]
        return errors, messages

    def _run(self, asked):
        process = self._warm.start(__name__, dict(os.environ), True)
        with process.stdin as pipe:
            pipe.write(json.dumps(asked).encode())
        with process.stdout, process.stderr, ThreadPoolExecutor(2) as pool:
            said = list(pool.map(lambda pipe: pipe.read().decode(), (process.stdout, process.stderr)))
        return process.wait(), *said


def main():
    asked = json.load(sys.stdin)
    if "script" in asked:
        sys.argv = [asked["script"]]
        runpy.run_path(asked["script"], run_name="__main__")
    else:
        os.chdir(asked["folder"])
        print("", json.dumps(list(_messages(asked["cells"]))), sep="\n")
    sys.stdout.flush()


def _messages(sources):
    """(source of the cell, kind, content) of each message: a kernel in this process sends the same as any other."""
    from ipykernel.inprocess.manager import InProcessKernelManager

    manager = InProcessKernelManager()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    for source in sources:
        client.execute(source)
        try:
            while True:
                message = client.get_iopub_msg(timeout=0)
                if message["msg_type"] not in ("status", "execute_input"):
                    yield source, message["msg_type"], message["content"]
        except Empty:
            pass
