"""A learner's function in a process of its own, which may hang, exit, print without end or patch what it likes.

The judge asks, the other side (`guest/main.py`) answers with plain data. It starts fresh, so nothing that was done to a
library in the notebook is there, and nothing that it does to a library reaches the judge. It can't answer late: then it
is stopped, with everything that it has started.
"""

from __future__ import annotations

import os
import queue
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Final

from gpipe_edu.process import plain
from gpipe_edu.process.asking import MARK, Ask
from gpipe_edu.process.child import FLOOD, Child, Start, fresh
from gpipe_edu.process.enclosure import Enclosure
from gpipe_edu.process.lines import Line
from gpipe_edu.process.packing import Packed
from gpipe_edu.process.probes import Confinement
from gpipe_edu.process.resource_limits import MEMORY
from gpipe_edu.process.scratch_folder import delete, holds_more
from gpipe_edu.process.time_limit import LOOK, MOST_PROCESSES, TimeLimit, wall

from .findings import GROWS, Reply, Trouble
from .guest import main as guest
from .guest.error_text import cut_to_length

_MEMORY: Final = 3 * MEMORY
"""Bytes for all its processes together."""

_MUCH: Final = MEMORY // 2
"""Bytes that a process holds only if it is about to run out: one that then ends by itself has lacked memory."""

_GROWTH: Final = 200_000_000
"""Bytes that no right answer needs: a process that has taken so many when its time is over would go on."""

_RUNAWAY: Final = 900_000_000
"""Bytes beyond what a process had, more than any PyTorch and a right answer take: at more it is stopped at once."""

_WRITTEN: Final = 500_000_000
"""Bytes of files in its temporary folder."""

_MOST_FILES: Final = 20_000
"""Each takes time to delete, and in a sandbox memory of the kernel's."""

FOLDERS: Final = "gpipe_edu_answer_"
"""How the names of temporary folders begin."""

_SAID: Final = 20_000_000
"""Bytes of all its replies and questions, which take the judge's time and memory: right answers need three million."""

START: Final = 60.0
"""Seconds for Python and its packages to load, which is no fault of the learner's."""


class MachineBusy(Exception):
    """The machine was too busy to let the learner's process have its time: no verdict on anybody's answer."""


def probe(enclosure: Enclosure, start: Start) -> Confinement:
    """What is shut off from an answer there. Raises MachineBusy."""
    process = LearnerProcess(guest.__name__, Packed("", b"", {}, {}, ""), START, enclosure=enclosure, start=start)
    try:
        process.begin()
        return process.held
    finally:
        process.close()


class LearnerProcess:
    """`with LearnerProcess(...) as ask: reply = ask(M=4)`; `seconds` is the time for all calls together.

    enclosure: where the process runs, None for the learner's own answer; `held` says what is shut off there. start: how
    the process is started.
    """

    def __init__(
        self,
        module: str,
        packed: Packed,
        seconds: float,
        path: Sequence[str] = (),
        *,
        enclosure: Enclosure | None = None,
        start: Start = fresh,
    ) -> None:
        self._packed = packed
        self._ended: Trouble | None = None
        self._replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        # Its temporary folder is deleted when it ends; a sandbox's own folder goes with the sandbox.
        self._folder = tempfile.mkdtemp(prefix=FOLDERS)
        scratch = (enclosure and enclosure.scratch) or self._folder
        try:
            self._child = Child(guest.__name__, self._replies.put, start=start, most=_SAID, TMPDIR=scratch)
        except OSError:
            os.rmdir(self._folder)
            raise
        self._limit = TimeLimit(self._pids, seconds)
        self._start = {
            "module": module,
            "path": list(path),
            "seconds": seconds,
            "sources": list(packed.sources),
            "missing": packed.missing,
            "enclosure": enclosure.name if enclosure else None,
            "folder": scratch,
            "outside": self._folder,
            "cpu": wall(seconds),
        }
        self.held = Confinement()

    def __enter__(self) -> LearnerProcess:
        try:
            self.begin()
            self._child.send(self._packed.body)
            self._ended = self._receive(self._limit).trouble
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def begin(self) -> None:
        """Have the process load what it needs, except the answer, and enter its enclosure. Raises MachineBusy."""
        self._child.send(plain.encode(self._start))
        first = self._receive(TimeLimit(self._pids, START))
        if first.trouble:
            why = "it took too long" if first.trouble.kind == "stopped" else self._child.last_line()
            raise MachineBusy(f"the process for the answer could not begin: {why}")
        self.held = Confinement(*first.value or ())

    def close(self) -> None:
        """End the process, and delete its files, as far as that can be done."""
        self._child.close()
        with suppress(OSError):
            delete(self._folder)

    def __call__(self, answer: Ask | None = None, /, **given: Any) -> Reply:
        """Call the function with `given`, as the exercise's `perform` says. Never raises for an error of the learner's.

        answer: answers the questions that come from inside meanwhile.
        """
        if self._ended:
            return Reply(trouble=self._ended)
        self._child.send(plain.encode(given))
        reply = self._receive(self._limit, answer)
        if reply.trouble and (reply.trouble.kind in ("ended", "unreadable") or self._child.ended):
            self._ended = reply.trouble
        return reply

    @property
    def printed(self) -> str:
        """The beginning of what the function has printed; all of it is there once the process has ended."""
        return self._child.printed

    def lines(self, found: Iterable[tuple[Any, ...]]) -> tuple[Line, ...]:
        """Those of the lines (file, number, function) that are the learner's own, with their texts."""
        return self._packed.lines(found)

    def _pids(self) -> list[int]:
        return self._child.ancestors

    def _fills_its_folder(self) -> bool:
        """Whether its files are too many or too large. A sandbox has a file system of its own, of that size."""
        if self._start["folder"] == self._folder:
            return holds_more(self._folder, _MOST_FILES, _WRITTEN)
        with suppress(OSError):
            about = os.statvfs(f"/proc/{self._child.pid}/root{self._start['folder']}")
            return about.f_files - about.f_ffree > _MOST_FILES
        return False

    def _receive(self, limit: TimeLimit, answer: Ask | None = None) -> Reply:
        """The next reply; questions that come first are answered. Raises MachineBusy."""
        limit.begin()
        looked = monotonic()
        at_first, most = None, 0
        grew = False
        while True:
            ended = self._child.ended  # asked first, so that its last message is not missed
            try:
                data = self._replies.get(timeout=LOOK)
                if data is None or not data.startswith(MARK):
                    break
                if answer is None:
                    raise ValueError("nothing is to be asked")
                self._child.send(plain.encode(answer(plain.decode(data[len(MARK) :]))))
                limit.answered()
                if monotonic() < looked + LOOK:
                    continue
            except queue.Empty:
                pass
            except (ValueError, TypeError, LookupError):  # nothing that our own code asks
                self._child.kill()
                return Reply(trouble=Trouble("unreadable", ""))
            looked = monotonic()
            limit.look()
            at_first, most = limit.largest if at_first is None else at_first, max(most, limit.largest)
            grew = most - at_first > _GROWTH
            if ended:  # only what it has left behind keeps the pipe open
                data = None
                break
            if limit.crowd:
                self._child.kill()
                return Reply(trouble=Trouble("crowd", f"{MOST_PROCESSES}"))
            if limit.over or most - at_first > _RUNAWAY:
                where = self.lines(self._child.last_words())
                self._child.kill()
                return Reply(trouble=Trouble("stopped", GROWS if grew else "", where, seconds=limit.seconds))
            if limit.fills(_MEMORY) or self._fills_its_folder():
                self._child.kill()
                return Reply(trouble=Trouble("MemoryError", "more than there is for it, in memory or in files"))
            if limit.kept_waiting:
                self._child.kill()
                raise MachineBusy
        limit.end()
        if data is None:
            if self._child.talked:
                return Reply(
                    trouble=Trouble("MemoryError", f"what it hands over is more than {_SAID / 1_000_000:g} MB")
                )
            if self._child.flooded:
                return Reply(trouble=Trouble("printed", f"{FLOOD // 1_000_000} MB"))
            if most > _MUCH:  # at its limit it may be unable to tell even an error
                return Reply(trouble=Trouble("MemoryError", "more than there is for it"))
            return Reply(trouble=Trouble("ended", ""))
        try:
            value, trouble = plain.decode(data)
            if trouble is None:
                return Reply(value, grew=grew)
            kind, message, lines, bases = cut_to_length(*trouble)
            return Reply(trouble=Trouble(kind, message, self.lines(lines), bases))
        except (ValueError, TypeError, LookupError):
            return Reply(trouble=Trouble("unreadable", ""))
