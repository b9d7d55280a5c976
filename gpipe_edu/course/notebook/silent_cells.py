"""A cell that is silent for seconds shows one line that counts them; at its first output, or its end, the line is gone.

No call is needed: IPython reports when a cell begins and ends, and all output is sent by the kernel's one session, so
its `send` is replaced by one that listens. Everything passes through there and nowhere else: ipykernel has a hook for
displays, but none for printed text or widgets. The line is removed by clearing the cell's output, which holds nothing
else while the cell is silent: so no trace of it is saved, not even an empty output.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any, Final
from uuid import uuid4

from . import frontend

PATIENCE: Final = 2.5
"""Seconds that a cell may be silent."""

_IN_ITS_PLACE: Final = {"stream", "display_data", "execute_result", "error"}
_SPEAKS: Final = _IN_ITS_PLACE | {"update_display_data", "clear_output", "input_request", "comm_open", "comm_msg"}
"""Messages that are a cell's own output, or that decide where it goes: widgets may catch it."""


def watch_cells() -> None:
    """From now on, in a notebook, a silent cell counts its seconds. Not in a browser's kernel, which has no threads."""
    shell = frontend.jupyter_shell()
    if hasattr(shell, "kernel") and sys.platform != "emscripten":
        _Watch(shell)


class _Watch:
    """Knows the running cell, and hears all that the kernel sends."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cell: _CellRun | None = None
        session = shell.kernel.session
        self.send = session.send
        session.send = self.hear
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_parent=self.stop_counting, after_in_child=self.forget)
        shell.events.register("pre_run_cell", self.begin)
        shell.events.register("post_run_cell", self.end)

    def begin(self, _: Any) -> None:
        request = self.shell.get_parent()
        if self.cell and self.cell.request_id == _request_id(request):
            self.cell.depth += 1  # a cell run by a cell is part of it to the reader
            return
        if self.cell:
            self.cell.end()
        self.cell = _CellRun(self, request) if _request_id(request) else None  # the kernel's own startup is no request

    def end(self, _: Any) -> None:
        cell = self.cell
        if cell and cell.request_id == _request_id(self.shell.get_parent()):
            cell.depth -= 1
            if not cell.depth:
                self.cell = None
                cell.end()

    def hear(
        self, stream: Any, msg_or_type: Any, content: Any = None, parent: Any = None, *rest: Any, **named: Any
    ) -> Any:
        """Replaces `Session.send`."""
        cell = self.cell
        if cell:
            whole = isinstance(msg_or_type, dict)
            kind = msg_or_type["header"]["msg_type"] if whole else msg_or_type
            if kind in _SPEAKS and _request_id(msg_or_type["parent_header"] if whole else parent) == cell.request_id:
                cell.end_silence(kind)
        return self.send(stream, msg_or_type, content, parent, *rest, **named)

    def stop_counting(self) -> None:
        """A fork's output bypasses us, and clearing it away would be worse than silence."""
        if self.cell:
            self.cell.end_silence("fork")

    def forget(self) -> None:
        """In a fork: it inherits the session, but neither our thread nor the thread that holds our lock."""
        self.cell = None

    def tell(self, kind: str, content: dict[str, Any], request: Any) -> None:
        """Send to the output of that request's cell."""
        publisher = self.shell.display_pub
        self.send(publisher.pub_socket, kind, content, parent=request, ident=publisher.topic)


class _CellRun:
    """One run of a cell: a thread counts the seconds until the cell's first output or its end."""

    def __init__(self, watch: _Watch, request: Any) -> None:
        self.watch, self.request, self.request_id = watch, request, _request_id(request)
        self.depth = 1
        self.began, self.line = time.monotonic(), uuid4().hex
        self.shown = self.spoke = False
        self.lock = threading.RLock()  # collecting garbage may close a widget, which sends, anywhere
        self.over = threading.Event()
        self.counter = threading.Thread(target=self.count, name="silent cell", daemon=True)
        self.counter.start()

    def count(self) -> None:
        wait = PATIENCE
        while not self.over.wait(wait):
            self.show()
            wait = 1

    def show(self) -> None:
        with self.lock:
            if not self.spoke:
                data = {"text/plain": _words(time.monotonic() - self.began)}
                content = {"data": data, "metadata": {}, "transient": {"display_id": self.line}}
                kind = "update_display_data" if self.shown else "display_data"
                self.shown = True
                self.watch.tell(kind, content, self.request)

    def end_silence(self, kind: str) -> None:
        """The next output replaces the line directly, without a flicker."""
        with self.lock:
            self.spoke = True
            self.over.set()
            if self.shown:
                self.shown = False
                self.watch.tell("clear_output", {"wait": kind in _IN_ITS_PLACE}, self.request)

    def end(self) -> None:
        self.end_silence("end")
        self.counter.join()


def _request_id(request: Any) -> Any:
    """The id of a request, given it or its header; None if there is none."""
    return (request.get("header") or request).get("msg_id") if request else None


def _words(seconds: float) -> str:
    torch = sys.modules.get("torch")
    if getattr(getattr(torch, "__spec__", None), "_initializing", False):  # Python's mark of a module that is loading
        return f"loading PyTorch, {seconds:.0f} s; up to 15 s the first time"
    return f"running, {seconds:.0f} s"
