"""One of several processes: it runs the function it is handed, in a gloo group with the others, and reports.

It speaks through a copy of standard output; what the function prints travels the same way, so it is never out of order.
"""

from __future__ import annotations

import faulthandler
import io
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

from gpipe_edu.course.child import limit_memory, listen, read

_PRINTED: Final = 10_000
"""Characters passed on of what a function prints."""


def main() -> None:
    """Run one job after another until the other side hangs up."""
    questions, answers = os.fdopen(os.dup(0), "rb"), Channel(os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started us is interrupted too, and stops us
    rank, path = pickle.loads(read(questions))
    sys.path += [folder for folder in path if folder not in sys.path]
    sys.dont_write_bytecode = True
    import torch

    from .watch import Watch

    torch.set_num_threads(1)
    watch = Watch()
    limit_memory()
    sys.stdout = Prints(answers)
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=listen, args=(questions, jobs), daemon=True).start()
    answers.say("ready")
    while True:
        answers.say(*_do(pickle.loads(jobs.get()), rank, watch))


def this_watch() -> Any:
    """The watch of this process, for code of ours that runs in it."""
    return _current[0]


_current: list[Any] = []


class Channel:
    """Where reports go: pickled tuples, each in one piece."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def say(self, *report: Any) -> None:
        """Send a report. Raises an error if it can't be pickled, and then sends nothing."""
        data = pickle.dumps(report)
        with self._lock:
            self._pipe.write(len(data).to_bytes(8, "big") + data)
            self._pipe.flush()


class Prints(io.TextIOBase):
    """Standard output that travels with the reports."""

    def __init__(self, channel: Channel) -> None:
        self._channel, self._left = channel, _PRINTED

    def write(self, text: str) -> int:
        """Pass `text` on, as long as it is not too much."""
        if self._left > 0:
            self._channel.say("print", text[: self._left] + (" ..." if len(text) > self._left else ""))
            self._left -= len(text)
        return len(text)

    def writable(self) -> bool:
        """It can be written to."""
        return True


def _do(job: dict[str, Any], rank: int, watch: Any) -> tuple[Any, ...]:
    """The report on one job."""
    import torch.distributed as dist

    from .diary import Diary

    _current[:] = [watch]
    if dist.is_initialized():  # that of the job before, kept until every process was through
        dist.destroy_process_group()
    store = dist.FileStore(job["store"], job["size"])  # type: ignore[attr-defined]
    limit = timedelta(seconds=job["seconds"] + 10)  # later than the limit of who waits for us, who knows more
    dist.init_process_group("gloo", store=store, rank=rank, world_size=job["size"], timeout=limit)
    watch.barrier()
    diary = Diary(Path(job["diary"]))
    watch.diary = diary
    faulthandler.dump_traceback_later(job["seconds"] * 0.9, exit=False, file=2)
    try:
        call: Callable[[], Any] = pickle.loads(job["body"])
        value = call()
        return "value", pickle.dumps(value)
    except BaseException as error:  # sys.exit too
        return "error", *_error(error)
    finally:
        faulthandler.cancel_dump_traceback_later()
        watch.diary = None


def _error(error: BaseException) -> tuple[Any, ...]:
    """The error, if it can travel, its type and words, and the lines that led to it."""
    frames = [(frame.filename, frame.lineno, frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    body = None
    with suppress(Exception):
        body = pickle.dumps(error.with_traceback(None))
    return body, type(error).__name__, str(error)[:1000], frames
