"""One of several processes: it runs the functions it is sent, in a gloo group with the others, and reports.

What a function prints travels the same way as the reports, so it is never out of order.
"""

from __future__ import annotations

import io
import pickle
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpipe_edu.process import plain, stack_on_timeout
from gpipe_edu.process.asking import asking
from gpipe_edu.process.lines import lines_to
from gpipe_edu.process.packing import unpack
from gpipe_edu.process.parent import Parent, look_also_in
from gpipe_edu.process.resource_limits import limit_memory
from gpipe_edu.process.time_limit import wall

_PRINTED: Final = 10_000
"""How many characters of what a function prints are passed on."""


def main() -> None:
    """Run one job after another until the parent closes the pipe."""
    parent = Parent()
    parent.listen()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and stops us
    rank, path = pickle.loads(parent.hear())
    look_also_in(path)
    import torch

    from .recorder import Watch

    torch.set_num_threads(1)
    watch = Watch()
    limit_memory()
    sys.stdout = Prints(parent)
    _report(parent, "ready")
    while True:
        with asking(partial(_ask, parent)):
            _report(parent, *_do(pickle.loads(parent.hear()), rank, watch))


def this_watch() -> Any:
    """The watch of this process, for our own code that runs in it."""
    return _current[0]


_current: list[Any] = []


class Prints(io.TextIOBase):
    """Standard output that travels with the reports."""

    def __init__(self, parent: Parent) -> None:
        self._parent, self._left = parent, _PRINTED

    def write(self, text: str) -> int:
        """Pass `text` on, up to the limit."""
        if self._left > 0:
            _report(self._parent, "print", text[: self._left] + (" ..." if len(text) > self._left else ""))
            self._left -= len(text)
        return len(text)

    def writable(self) -> bool:
        """It can be written to."""
        return True


def _report(parent: Parent, *report: Any) -> None:
    parent.say(plain.encode(report))


def _ask(parent: Parent, question: Any) -> Any:
    """The answer of whoever gave us the job."""
    _report(parent, "ask", question)
    return plain.decode(parent.hear())


def _do(job: dict[str, Any], rank: int, watch: Any) -> tuple[Any, ...]:
    """The report on one job."""
    import torch.distributed as dist

    from .diary import Diary

    _current[:] = [watch]
    if dist.is_initialized():  # the previous job's group, kept until every process was done
        dist.destroy_process_group()
    store = dist.FileStore(job["store"], job["size"])  # type: ignore[attr-defined]
    limit = timedelta(seconds=wall(job["seconds"]) + 10)  # later than the limit of our parent, which knows more
    dist.init_process_group("gloo", store=store, rank=rank, world_size=job["size"], timeout=limit)
    watch.barrier()
    diary = Diary(Path(job["diary"]))
    watch.diary = diary
    try:
        with stack_on_timeout.Prepared(job["seconds"]):
            value = unpack(job["body"])()
            return "value", value if job["judged"] else _pickled(value)
    except BaseException as error:  # sys.exit too
        return "error", *_error(error)
    finally:
        watch.diary = None


def _error(error: BaseException) -> tuple[Any, ...]:
    """The error, if it can be pickled, its type, reason and message, and the lines that led to it."""
    lines, kind = lines_to(error), type(error).__name__
    body = None
    with suppress(Exception):
        body = _pickled(error.with_traceback(None))
    return body, kind, str(getattr(error, "reason", "")), str(error)[:1000], lines


def _pickled(value: Any) -> Any:
    """`value` pickled, as an array of bytes, which is plain data."""
    return np.frombuffer(pickle.dumps(value), np.uint8)
