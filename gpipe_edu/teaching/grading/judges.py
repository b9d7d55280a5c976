"""A pool of judges: answers in, reports out, several at once; a disturbed run is repeated once, alone."""

from __future__ import annotations

import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple

from gpipe_edu.judge.exercise import Exercise
from gpipe_edu.judge.findings import Report
from gpipe_edu.judge.host import START
from gpipe_edu.judge.judging import unpack_report
from gpipe_edu.process import frames, plain
from gpipe_edu.process.child import command
from gpipe_edu.process.enclosure import CONTAINER, SANDBOX, Enclosure
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.probes import Confinement
from gpipe_edu.process.time_limit import wall

from . import judge_worker

_LIMIT: Final = 3 * START
"""Seconds on top of the answer's own."""

_FAREWELL: Final = 5.0
"""Seconds for a worker to kill what an answer has started."""


class Workplace(NamedTuple):
    """Where answers are judged. command: what starts a worker there, () on this machine. name: as shown to people."""

    enclosure: Enclosure
    command: tuple[str, ...] = ()
    name: str = "here"


HERE: Final = Workplace(SANDBOX)


class Task(NamedTuple):
    """One answer to be judged. name: identifies it to the caller."""

    name: Any
    exercise: Exercise
    packed: Packed
    seed: int
    passing_over: tuple[str, ...]


class Outcome(NamedTuple):
    """The report, or why there is none."""

    report: Report | None
    why: str = ""


class Judges:
    """`with Judges(jobs) as judges: for task, outcome in judges.judge(tasks)`. trust: without any enclosure."""

    def __init__(self, jobs: int, trust: bool = False, place: Workplace = HERE) -> None:
        self._trust, self._count = trust, count()
        self._folder = tempfile.TemporaryDirectory(prefix="gpipe_edu_grade_", ignore_cleanup_errors=True)
        self._workers = [_Worker(self._folder.name, place) for _ in range(jobs)]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Judges:
        return self

    def __exit__(self, *error: object) -> None:
        for one in self._workers:
            one.close(for_good=True)
        for thread in self._threads:  # of a worker that no longer answers
            thread.join(_FAREWELL)
        self._folder.cleanup()

    def probe(self) -> Confinement:
        """What is shut to answers here. Raises ValueError where they can't be run at all."""
        answer = self._workers[0].ask({"probe": True, "confined": True, "student": None}, _LIMIT)
        if "why" in answer:
            raise ValueError(answer["why"])
        return Confinement(*answer.get("held", ()))

    def judge(self, tasks: Iterable[Task | None]) -> Iterator[tuple[Task, Outcome]]:
        """The outcomes as they come. Judging goes on while `tasks` is still being read.

        A None among the tasks ends those of one student, which are judged by one worker, quick exercises first.
        """
        waiting: queue.PriorityQueue[tuple[int, list[Task] | None]] = queue.PriorityQueue()
        done: queue.SimpleQueue[tuple[Task, Outcome, bool]] = queue.SimpleQueue()
        stopped = False

        def work(one: _Worker) -> None:
            while (theirs := waiting.get()[1]) is not None:
                student = next(self._count)
                for task in sorted(theirs, key=lambda task: task.exercise.seconds):
                    if stopped:
                        return
                    done.put((task, *self._ask(one, task, student)))

        self._threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in self._workers]
        for thread in self._threads:
            thread.start()
        again, source, over, reading, begun, ended = [], iter(tasks), object(), True, 0, 0
        theirs: list[Task] = []
        try:
            while reading or ended < begun:
                if reading:
                    found = next(source, over)
                    reading = found is not over
                    if isinstance(found, Task):
                        theirs.append(found)
                    elif theirs:
                        begun += len(theirs)
                        waiting.put((begun, theirs))
                        theirs = []
                try:
                    task, outcome, busy = done.get(block=not reading and ended < begun)
                except queue.Empty:
                    continue
                ended += 1
                if busy:
                    again.append(task)
                else:
                    yield task, outcome
        finally:
            stopped = True
            for number in range(len(self._workers)):
                waiting.put((-number, None))  # ahead of all that still wait
        for task in again:
            yield task, self._ask(self._workers[0], task, next(self._count))[0]

    def _ask(self, one: _Worker, task: Task, student: int) -> tuple[Outcome, bool]:
        """The outcome, and whether the machine was too busy for a better one."""
        message = {
            "key": task.exercise.key,
            "packed": task.packed.as_message(),
            "seed": task.seed,
            "confined": not self._trust,
            "student": student,
            "passing_over": list(task.passing_over),
        }
        try:
            answer = one.ask(message, wall(task.exercise.seconds) + _LIMIT)
            if "report" in answer:
                return Outcome(unpack_report(answer["report"])), False
        except Exception as error:  # in a thread, which must go on, or all would wait for it forever
            return Outcome(None, f"the judge's report can't be read ({type(error).__name__}: {error})"), True
        return Outcome(None, str(answer.get("why", "the judge gave no report"))), bool(answer.get("busy", True))


class _Running(NamedTuple):
    """A process, and the pipes to and from it."""

    process: subprocess.Popen[bytes]
    questions: frames.Sender


class _Worker:
    """A worker's process, started at the first question, and restarted if it has ended."""

    def __init__(self, folder: str, place: Workplace) -> None:
        self._folder, self._place, self._over = folder, place, False
        self._running: _Running | None = None
        self._whose: Any = None
        self._lock = threading.Lock()

    def ask(self, message: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer of `judge_worker.main`; {"why": ...} if none comes in time. In a container none asks for another
        student than the first who was asked for there.
        """
        if self._place.enclosure is CONTAINER and message["student"] != self._whose:
            self.close()
        self._whose = message["student"]
        with suppress(OSError, EOFError, ValueError):
            running = self._process()
            if running is not None:  # another thread may close it meanwhile
                running.questions.send(plain.encode(message))
                answer = plain.decode(_read(running.process, time.monotonic() + seconds))
                if isinstance(answer, dict):
                    if answer.pop("last"):
                        self.close()
                    return answer
        self.close()
        return {"why": "the judge's process has ended", "busy": True}

    def close(self, for_good: bool = False) -> None:
        """Kill it and everything that it has started. for_good: it is not restarted."""
        with self._lock:
            self._over = self._over or for_good
            running, self._running = self._running, None
        if running is None:
            return
        process, questions = running
        questions.close()  # at which it kills all it has started
        with suppress(subprocess.TimeoutExpired):
            process.wait(_FAREWELL)
        process.kill()
        process.wait()
        with suppress(OSError):
            process.stdout.close()  # type: ignore[union-attr]

    def _process(self) -> _Running | None:
        with self._lock:
            if self._running is None and not self._over:
                self._running = self._start()
            return self._running

    def _start(self) -> _Running:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # which Python itself is told to pass over
            "LANG": "C.UTF-8",
            "HOME": self._folder,
            "TMPDIR": self._folder,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            "CUDA_VISIBLE_DEVICES": "",
        }
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            list(self._place.command) or command(judge_worker.__name__),
            stdin=pipe,
            stdout=pipe,
            stderr=sys.stderr,
            env=None if self._place.command else environment,
            cwd=self._folder,
            start_new_session=True,  # Ctrl-C reaches us, and we kill it
        )
        return _Running(process, frames.Sender(process.stdin))  # type: ignore[arg-type]  # it is a pipe


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    pipe: Any = process.stdout

    class Timed:
        """Reads from the pipe until the deadline."""

        def read(self, size: int, /) -> bytes:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise OSError("it is late")
            return os.read(pipe.fileno(), size)

    return frames.read(Timed())
