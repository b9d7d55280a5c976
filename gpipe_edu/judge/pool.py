"""Workers that judge: the one that waits for a learner's next check, and several at once for a class.

An answer whose judging was disturbed is judged once more: in a class at the end, alone.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple

from gpipe_edu.process import plain
from gpipe_edu.process.child import Child, Start, command, fresh
from gpipe_edu.process.enclosure import CONTAINER, SANDBOX, Enclosure
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.probes import Confinement
from gpipe_edu.process.resource_limits import ENVIRONMENT
from gpipe_edu.process.time_limit import is_stopped, wall

from . import worker
from .case import Tell
from .exercise import Exercise
from .findings import Report
from .judging import NotJudged, judge, unpack_report
from .learner_process import START

_LIMIT: Final = 3 * START
"""Seconds on top of the answer's own."""

_FAREWELL: Final = 5.0
"""Seconds for a worker to kill what an answer has started."""


class Task(NamedTuple):
    """One answer to be judged. name: identifies it to the caller."""

    name: Any
    exercise: Exercise
    packed: Packed
    seed: int


class Worker:
    """A process that judges, started at the first question, and again if it has ended.

    start: how it is started. one_student: it judges only one student's answers; the next one's get a new process.
    """

    def __init__(self, start: Start = fresh, one_student: bool = False) -> None:
        self._start, self._one_student, self._whose = start, one_student, None
        self._running: tuple[Child, queue.SimpleQueue[bytes | None]] | None = None
        self._over, self._lock = False, threading.Lock()

    def report(self, task: Task, path: Sequence[str] = (), tell: Tell | None = None) -> Report:
        """As `judge` does with a learner's own answer, in the current folder. Raises NotJudged."""
        found = self.ask(_message(task, path=list(path), folder=os.getcwd()), _seconds(task), tell)
        if "report" in found:
            return unpack_report(found["report"])
        if "busy" in found:
            why = found["busy"] or "this machine is too busy"
            raise NotJudged(f"{why}. Try again when it has less to do", busy=True)
        raise NotJudged(found["why"], busy=found["again"])

    def ask(self, message: dict[str, Any], seconds: float, tell: Tell | None = None) -> dict[str, Any]:
        """What `worker.main` finds; {"why": ...} if nothing comes in time. tell: is told of each case that begins."""
        if self._one_student and message["student"] != self._whose:
            self.close()
        self._whose = message["student"]
        running = self._process()
        if running is None:  # another thread has closed it meanwhile
            return {"why": "nobody judges any more", "again": False}
        child, replies = running
        child.send(plain.encode(message))
        why, stopped, deadline = "it did not come to an end", 0, monotonic() + seconds
        while monotonic() < deadline:
            try:
                data = replies.get(timeout=worker.LOOK)
            except queue.Empty:
                stopped = stopped + 1 if is_stopped(child.pid) else 0
                if stopped < 2:
                    continue
                why = worker.STOPPED
                break
            if data is None:
                status = child.status()
                why = worker.ended_by(status) if status < 0 else child.last_line()
                break
            found: dict[str, Any] = plain.decode(data)
            if "case" not in found:
                if found.pop("last", False):
                    self.close()
                return found
            if tell:
                tell(found["case"], found["call"])
        self.close()
        return {"why": why, "again": True}

    def close(self, for_good: bool = False) -> None:
        """Kill it and everything that it has started. for_good: it is not restarted."""
        with self._lock:
            self._over = self._over or for_good
            running, self._running = self._running, None
        if running is not None:
            running[0].hang_up(_FAREWELL)  # then it kills all it has started

    @property
    def pid(self) -> int:
        """Its process ID, once it has been asked something."""
        return self._running[0].pid if self._running else 0

    def _process(self) -> tuple[Child, queue.SimpleQueue[bytes | None]] | None:
        with self._lock:
            if self._running is not None and self._running[0].ended:
                self._running[0].close()
                self._running = None
            if self._running is None and not self._over:
                replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
                self._running = Child(worker.__name__, replies.put, start=self._start), replies
            return self._running


def _message(task: Task, **where: Any) -> dict[str, Any]:
    """What `worker.main` is asked. where: what differs from the default, no enclosure and no student."""
    return {
        "key": task.exercise.key,
        "seconds": task.exercise.seconds,
        "packed": task.packed.as_message(),
        "seed": task.seed,
        "enclosure": None,
        "student": None,
        "path": [],
        "folder": "",
        **where,
    }


def _seconds(task: Task) -> float:
    return wall(task.exercise.seconds) + _LIMIT


_idle: list[tuple[dict[str, str], Worker]] = []
"""Those that wait for the next check, each with its environment, as a program's behaviour depends on that."""


def judge_apart(
    exercise: Exercise,
    packed: Packed,
    seed: int,
    path: Sequence[str] = (),
    tell: Tell | None = None,
) -> Report:
    """As `judge`, in a process of its own; in a browser, which has none, here. Raises NotJudged."""
    if sys.platform == "emscripten":
        return judge(exercise, packed, seed, path, same_process=True, tell=tell)
    environment = dict(os.environ)
    one = _take(environment)
    try:
        report = one.report(Task(None, exercise, packed, seed), path, tell)
    except BaseException:
        one.close()
        raise
    _idle.append((environment, one))
    return report


def close_idle() -> None:
    """End the processes that wait for another check."""
    while _idle:
        _idle.pop()[1].close()


def _take(environment: dict[str, str]) -> Worker:
    """One that waits, if it still fits."""
    while _idle:
        its_own, one = _idle.pop()
        if its_own == environment:
            return one
        one.close()
    return Worker()


class Workplace(NamedTuple):
    """Where answers are judged. command: what starts a worker there, () on this machine. name: as shown to people."""

    enclosure: Enclosure
    command: tuple[str, ...] = ()
    name: str = "here"


HERE: Final = Workplace(SANDBOX)


class Outcome(NamedTuple):
    """The report, or why there is none."""

    report: Report | None
    why: str = ""

    @property
    def timed_out(self) -> bool:
        """Whether the answer was stopped when its time was over."""
        trouble = self.report.finding.trouble if self.report and self.report.finding else None
        return trouble is not None and trouble.kind == "stopped"


_TOO_LONG: Final = (
    "other answers handed in with this one had to be stopped, and have taken {seconds:g} seconds, the most that one "
    "student's may take from a class; the same command, given again, goes on with the rest"
)


class Judges:
    """`with Judges(jobs) as judges: for task, outcome in judges.judge(tasks)`. trust: without any enclosure. stalled:
    the seconds after which those of one student's answers that had to be stopped leave no time for the others."""

    def __init__(self, jobs: int, trust: bool = False, place: Workplace = HERE, stalled: float = inf) -> None:
        self._stalled = stalled
        self._enclosure, self._count = None if trust else place.enclosure.name, count()
        self._folder = tempfile.TemporaryDirectory(prefix="gpipe_edu_grade_", ignore_cleanup_errors=True)
        start = partial(_start_at, place, self._folder.name)
        self._workers = [Worker(start, place.enclosure is CONTAINER) for _ in range(jobs)]
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
        """What is shut off from answers here. Raises ValueError where they can't be run at all."""
        found = self._workers[0].ask({"enclosure": self._enclosure, "student": None}, _LIMIT)
        if "held" not in found:
            raise ValueError(found.get("why") or _busy(found))
        return Confinement(*found["held"])

    def judge(self, tasks: Iterable[Task | None]) -> Iterator[tuple[Task, Outcome]]:
        """The outcomes as they come. Judging goes on while `tasks` is still being read.

        A None among the tasks ends those of one student, which are judged by one worker, quick exercises first, as long
        as the ones that had to be stopped leave time.
        """
        waiting: queue.PriorityQueue[tuple[int, list[Task] | None]] = queue.PriorityQueue()
        done: queue.SimpleQueue[tuple[Task, Outcome, bool]] = queue.SimpleQueue()
        stopped = False

        def work(one: Worker) -> None:
            while (theirs := waiting.get()[1]) is not None:
                student, stalled = next(self._count), 0.0
                for task in sorted(theirs, key=lambda task: task.exercise.seconds):
                    if stopped:
                        return
                    if stalled >= self._stalled:
                        done.put((task, Outcome(None, _TOO_LONG.format(seconds=self._stalled)), False))
                        continue
                    outcome, busy = self._ask(one, task, student)
                    stalled += task.exercise.seconds * outcome.timed_out
                    done.put((task, outcome, busy))

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

    def _ask(self, one: Worker, task: Task, student: int) -> tuple[Outcome, bool]:
        """The outcome, and whether it is worth asking again."""
        try:
            found = one.ask(_message(task, enclosure=self._enclosure, student=student), _seconds(task))
            if "report" in found:
                return Outcome(unpack_report(found["report"])), False
        except Exception as error:  # in a thread, which must go on, or all would wait for it forever
            one.close()
            return Outcome(None, f"the judge's report can't be read ({type(error).__name__}: {error})"), True
        return Outcome(None, found.get("why") or _busy(found)), found.get("again", True)


def _busy(found: dict[str, Any]) -> str:
    return str(found.get("busy") or "the machine was too busy")


def _start_at(
    place: Workplace, folder: str, module: str, environment: Mapping[str, str], session: bool
) -> subprocess.Popen[bytes]:
    """Start a worker there, in `folder`; on this machine, with nothing of the grader's own environment."""
    clean = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),  # Python itself is told to ignore it
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "OPENBLAS_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        **ENVIRONMENT,
    }
    return subprocess.Popen(
        list(place.command) or command(module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment if place.command else clean,
        cwd=folder,
        start_new_session=session,  # Ctrl-C reaches us, and we kill it
    )
