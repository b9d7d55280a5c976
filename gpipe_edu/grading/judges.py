"""Judges at work: answers in, reports out, as many at once as wanted, and each that was disturbed once more, alone."""

from __future__ import annotations

import base64
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from gpipe_edu.course.exercise import find
from gpipe_edu.course.findings import Report
from gpipe_edu.course.judging import unpack_report
from gpipe_edu.course.sandbox import START
from gpipe_edu.process import cage, frames, plain
from gpipe_edu.process.child import command
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.patience import wall

from . import worker

_LIMIT: Final = 3 * START
"""Seconds beside those of the answer."""


class Task(NamedTuple):
    """One answer to be judged. name: whatever its owner knows it by."""

    name: Any
    key: str
    packed: Packed
    seed: int
    passing_over: tuple[str, ...]


class Outcome(NamedTuple):
    """The report, or why there is none."""

    report: Report | None
    why: str = ""


class Judges:
    """`with Judges(jobs) as judges: for task, outcome in judges.judge(tasks)`.

    trust: without a cage; where this is root, answers then run as nobody, if they can (`nobody`).
    """

    def __init__(self, jobs: int, trust: bool = False) -> None:
        self._jobs, self._trust = jobs, trust
        self._folder = tempfile.TemporaryDirectory(prefix="gpipe_edu_grade_", ignore_cleanup_errors=True)
        os.chmod(self._folder.name, 0o711)  # nobody has to get through to a folder of its own
        self._workers = [_Worker(self._folder.name) for _ in range(jobs)]
        self.nobody = trust and bool(self._workers[0].ask({"probe": "nobody"}, START).get("can"))

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *error: object) -> None:
        for one in self._workers:
            one.close(for_good=True)
        self._folder.cleanup()

    def held(self) -> cage.Held:
        """What the cage shuts here."""
        answer = self._workers[0].ask({"probe": "cage"}, START)
        return cage.Held(*answer["held"]) if "held" in answer else cage.Held()

    def judge(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Outcome]]:
        """The outcomes as they come."""
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        done: queue.SimpleQueue[tuple[Task, Outcome, bool]] = queue.SimpleQueue()
        over = threading.Event()

        def work(one: _Worker) -> None:
            while not over.is_set():
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    return
                done.put((task, *self._ask(one, task)))

        threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in self._workers]
        for thread in threads:
            thread.start()
        again = []
        try:
            for _ in tasks:
                task, outcome, busy = done.get()
                if busy:
                    again.append(task)
                else:
                    yield task, outcome
        finally:
            over.set()
        for task in again:
            yield task, self._ask(self._workers[0], task)[0]

    def _ask(self, one: _Worker, task: Task) -> tuple[Outcome, bool]:
        body = base64.b64encode(task.packed.body).decode()
        message = {
            "key": task.key,
            "packed": {**task.packed._asdict(), "body": body},
            "seed": task.seed,
            "caged": not self._trust,
            "nobody": self.nobody,
            "passing_over": list(task.passing_over),
        }
        answer = one.ask(message, wall(find(task.key).seconds) + _LIMIT)
        if "report" in answer:
            with suppress(TypeError, ValueError):
                return Outcome(unpack_report(answer["report"])), False
        return Outcome(None, str(answer.get("why", "the judge gave no report"))), bool(answer.get("busy", True))


class _Worker:
    """A worker's process, and a new one if it has ended."""

    def __init__(self, folder: str) -> None:
        self._folder, self._over = folder, False
        self._process = self._started()

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer of `worker.main`; {"why": ...} if none comes in time."""
        try:
            frames.write(self._process.stdin, plain.encode(message))  # type: ignore[arg-type]  # it is a pipe
            data = self._read(time.monotonic() + seconds)
            answer = plain.decode(data)
            if isinstance(answer, dict):
                return answer
        except (OSError, EOFError, ValueError):
            pass
        self.close()
        if not self._over:
            self._process = self._started()
        return {"why": "the judge's process has ended", "busy": True}

    def close(self, for_good: bool = False) -> None:
        """End it; whatever it has started ends with it. for_good: no other takes its place."""
        self._over = self._over or for_good
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._process.stdout.close()  # type: ignore[union-attr]

    def _started(self) -> subprocess.Popen[bytes]:
        environment = {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": self._folder,
            "TMPDIR": self._folder,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            "CUDA_VISIBLE_DEVICES": "",
        }
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command(worker.__name__),
            stdin=pipe,
            stdout=pipe,
            stderr=sys.stderr,
            env=environment,
            cwd=self._folder,
            start_new_session=True,  # Ctrl-C is for us, who end it
        )

    def _read(self, deadline: float) -> bytes:
        pipe: Any = self._process.stdout

        class Timed:
            """Reads from the pipe until the deadline."""

            def read(self, size: int, /) -> bytes:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([pipe], [], [], left)[0]:
                    raise OSError("it is late")
                return os.read(pipe.fileno(), size)

        return frames.read(Timed())
