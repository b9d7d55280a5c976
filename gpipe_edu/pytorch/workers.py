"""The threads that run a pipeline: one per device, started once, kept for all steps.

Each worker calls the backward of its own stages. On a CPU PyTorch runs a backward in the thread that asks for it, so
this is what makes the backwards of different stages run at the same time.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

import torch

_Job = Callable[[], None]

_POLL_SECONDS = 0.1
"""Short enough for Ctrl-C to feel immediate, long enough to cost a step nothing."""


class JobResults:
    """The results of the jobs of one run: an exception or None for each that has ended."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []
        self._news: SimpleQueue[None] = SimpleQueue()

    def add(self, outcome: list[BaseException | None]) -> None:
        """One more job has ended. Its result is taken out of `outcome`: the waiting thread may go on at once, and no
        other reference may then keep an error, with the tensors in its frames, alive."""
        self.errors.append(outcome.pop())
        self._news.put(None)

    def wait(self, count: int) -> None:
        """Wait until `count` jobs have ended. May be interrupted anywhere, by Ctrl-C, and called again.

        So it counts the jobs that have ended, not the messages about them, one of which an interrupt may swallow. And
        it wakes up now and then, since a signal that another thread received does not wake this one.
        """
        while len(self.errors) < count:
            with suppress(Empty):
                self._news.get(timeout=_POLL_SECONDS)


class Workers:
    """`Workers(n, threads)`: n threads, each with `threads` BLAS threads, or None to leave that alone.

    They end with this object, and are daemons so that they never keep a program from ending.
    """

    def __init__(self, n: int, threads: int | None) -> None:
        self._process = os.getpid()
        self.threads: list[threading.Thread] = []
        cores, started = torch.get_num_threads(), threading.Barrier(n + 1)
        self._jobs: list[SimpleQueue[tuple[_Job, JobResults] | None]] = []
        for index in range(n):
            jobs: SimpleQueue[tuple[_Job, JobResults] | None] = SimpleQueue()
            thread = threading.Thread(
                target=_work, args=(jobs, threads, started), name=f"stage worker {index}", daemon=True
            )
            thread.start()
            self.threads.append(thread)
            self._jobs.append(jobs)
        started.wait()
        # A thread that sets its number also sets the default of later threads, which must stay the user's.
        torch.set_num_threads(cores)
        weakref.finalize(self, _stop, self._jobs)

    @property
    def alive(self) -> bool:
        """False in a forked child: threads stay with the process that started them."""
        return self._process == os.getpid()

    def run(self, jobs: Sequence[_Job], abort: _Job) -> None:
        """Run one job on each worker, or on the first few, and wait for all.

        Raises the exception of the first one that failed, if any.
        abort: makes all jobs end soon; called if the waiting itself is interrupted, by Ctrl-C say.
        """
        done = JobResults()
        for queue, job in zip(self._jobs, jobs, strict=False):
            queue.put((job, done))
        try:
            done.wait(len(jobs))
        except BaseException:
            abort()
            done.wait(len(jobs))
            raise
        error = next((error for error in done.errors if error is not None), None)
        try:
            if error is not None:
                raise error
        finally:
            # An exception holds this frame; held by it in turn, it would stay, with the step's tensors, until the next
            # garbage collection, which an allocator that is out of memory does not wait for.
            del error
            done.errors.clear()


def _work(jobs: SimpleQueue[tuple[_Job, JobResults] | None], threads: int | None, started: threading.Barrier) -> None:
    if threads is not None:
        # OpenMP and MKL keep the number per thread. A thread that has not asked yet would later take the process's.
        torch.get_num_threads()
        torch.set_num_threads(threads)
    started.wait()
    while (task := jobs.get()) is not None:
        job, done = task
        outcome: list[BaseException | None] = [None]
        try:
            job()
        except BaseException as caught:
            outcome = [caught]
        # Release the job before reporting its end: the waiting thread may rely on its tensors being gone.
        del job, task
        done.add(outcome)
        del done


def _stop(queues: list[SimpleQueue[tuple[_Job, JobResults] | None]]) -> None:
    for queue in queues:
        queue.put(None)
