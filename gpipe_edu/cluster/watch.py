"""The ranks' watch over each other: a connection from each to rank 0, and one verdict for all when one is gone.

A rank that has failed leaves its neighbours blocked inside a receive, where no exception can be raised. So each rank
has a thread that sends heartbeats, hears who is gone, and ends its process with a sentence. Rank 0 alone judges, so
that all name the same rank, and it leaves last:

    to rank 0    hello   who this is, once
                 life    a heartbeat: what it is doing, and whether it waits for a message
                 failed  why it is about to end
                 done    it has left without an error
    from rank 0  all     every hello, once all have come
                 life    a heartbeat
                 end     which rank ends all of them, and why
                 done    all are done

A process that is killed loses its connection at once. One that is stopped keeps it, as does one whose machine or cable
is gone: these are noticed by their missing heartbeats. PyTorch's store would not do: once rank 0 is gone it can only
say that, and prints its C++ frames as well.
"""

from __future__ import annotations

import secrets
import signal
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import wait
from time import monotonic
from typing import Any, Final, NamedTuple

from .wire import Message, Wire, listen

BEAT: Final = 0.5
"""Seconds between two heartbeats."""

SILENCE: Final = 12.0
"""Seconds without a heartbeat after which a rank counts as gone: one call may hold Python's lock that long."""

_STUCK: Final = 15.0
"""Seconds for which all others wait for messages, after one rank has left, before we say that it left too early; and
those that a rank has to end after a failure, before all are ended."""

GRACE: Final = 2.0
"""Seconds that others have to leave before rank 0 does, and that a rank which was told to end has to hear why."""

_TOKEN: Final = 16


class Ending(NamedTuple):
    """The rank that ends all of them, and a sentence that begins with it."""

    rank: int
    why: str


class Doing(NamedTuple):
    """where: the end of a sentence, such as " at F1 of stage 0". waits: whether it is inside a send or a receive."""

    where: str
    waits: bool


class Watch(ABC):
    """A rank's thread for all that. `hello`: what all are told of this rank. `doing`: asked at each heartbeat.

    A hello has "here", where the rank is, and "same", what must be the same on all.

    `end(verdict)` is called in the thread when all have to end, but not before `enforced` is set: until then
    `wait_for_all` raises what is wrong.
    """

    def __init__(
        self, rank: int, hello: Mapping[str, Any], doing: Callable[[], Doing], end: Callable[[Ending], object]
    ) -> None:
        self.rank = rank
        self.hellos: list[Mapping[str, Any]] = []
        self.enforced = False
        self._hello, self._doing, self._end = dict(hello), doing, end
        self._over = self._reported = False
        self._verdict: Ending | None = None
        self._kept_from_running = 0.0
        self._joined, self._through, self._settled = threading.Event(), threading.Event(), threading.Event()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._doomed = 0.0, ""
        """When something failed here without which no rank can go on, and the sentence for it."""
        self._asked = 0.0, ""
        """When a signal came, and what it did."""
        self._thread = threading.Thread(target=self._run, name="ranks", daemon=True)

    def wait_for_all(self) -> Ending | None:
        """Wait until all ranks are there, with their `hellos`; returns what has gone wrong instead, if anything."""
        self._joined.wait()
        if self._verdict is not None:
            self._settled.wait(2 * GRACE)
        return self._verdict

    def report(self, why: str) -> None:
        """Tell the others that this rank is about to end. Returns when they know."""
        self._reported = True
        self._tell(why)
        self._settled.wait(2 * GRACE)

    def doom(self, why: str) -> None:
        """This rank has failed, and has yet to end; it has a while for that. After it all end, for `why`."""
        self._doomed = monotonic(), why

    def join(self, seconds: float) -> None:
        """Wait for a verdict, which ends this process."""
        self._thread.join(seconds)

    def leave(self) -> None:
        """This rank is done: wait until all are."""
        self._be_done()
        self._through.wait()

    def stop(self) -> None:
        """End the thread: all are done."""
        self._over = True
        with suppress(OSError):
            self._wake.send(b"\0")
        self._thread.join()
        self._woken.close()
        self._wake.close()

    def listen_to_signals(self) -> None:
        """Act on SIGTERM, and on SIGINT while the main thread is inside a receive, where Python can't.

        To be called in the main thread. The program's own handler of SIGTERM, if it has one, stays in force.
        """
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _leave_it_to_the_watch)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def forget_signals(self) -> None:
        """Undo `listen_to_signals`."""
        if signal.getsignal(signal.SIGTERM) is _leave_it_to_the_watch:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)

    @abstractmethod
    def _listened(self) -> list[Any]:
        """The connections that may have something to say."""

    @abstractmethod
    def _hear(self, one: Any) -> None:
        """Take in what `one` of them says."""

    @abstractmethod
    def _beat(self, doing: Doing) -> None:
        """Send a heartbeat, and see who sent none."""

    @abstractmethod
    def _tell(self, why: str) -> None: ...

    @abstractmethod
    def _be_done(self) -> None: ...

    @abstractmethod
    def _is_last(self) -> bool:
        """Whether this rank may end: rank 0 ends after the others."""

    def _run(self) -> None:
        beaten = looked = monotonic()
        while not self._over:
            ready = wait([self._woken, *self._listened()], BEAT)
            now = monotonic()
            if now - looked > SILENCE / 2:  # stopped, or another thread had Python's lock: messages may be waiting
                self._kept_from_running = max(self._kept_from_running, now - looked)
                self._pardon(now)
            looked = now
            for one in ready:
                if one is self._woken:
                    self._hear_signals()
                else:
                    self._hear(one)
            if now - beaten >= BEAT:
                beaten = now
                doing = self._doing()
                self._beat(doing)
                self._obey_signals(now, doing)
                if self._doomed[1] and now - self._doomed[0] > _STUCK and self._verdict is None:
                    self._tell(self._doomed[1])
            if self._verdict is not None and self._is_last():
                self._settled.set()
                if self.enforced and not self._reported:
                    self._end(self._verdict)

    @abstractmethod
    def _pardon(self, now: float) -> None:
        """No rank's silence before `now` counts."""

    def _decide(self, verdict: Ending) -> None:
        if self._verdict is None:
            self._verdict = verdict
            self._joined.set()

    def _hear_signals(self) -> None:
        with suppress(OSError):
            for number in self._woken.recv(64):
                if number == signal.SIGINT:
                    self._asked = monotonic(), "was interrupted"
                if number == signal.SIGTERM and signal.getsignal(number) is _leave_it_to_the_watch:
                    self._asked = monotonic(), "was told to end (SIGTERM)"

    def _obey_signals(self, now: float, doing: Doing) -> None:
        """Not at once: a launcher tells all to end when one has failed, and that one is the rank to name."""
        when, what = self._asked
        if what == "was interrupted" and not doing.waits:
            self._asked = 0.0, ""  # Python can raise KeyboardInterrupt
        elif what and now - when > GRACE and self._verdict is None:
            self._tell(f"rank {self.rank} {what}{doing.where}")

    def _gone(self, rank: int, here: str, where: str, silent: bool) -> Ending:
        last = f", last seen{where}" if where else ""
        if self._kept_from_running > SILENCE / 2:
            return Ending(
                self.rank,
                f"rank {self.rank} was stopped, or something else kept it from running, for "
                f"{self._kept_from_running:.0f} s; the others have ended without it",
            )
        if silent:
            how = f"has sent no heartbeat for {SILENCE:g} s{last}: it was stopped, or its machine or the network to"
            return Ending(rank, f"rank {rank}{here} {how} it is gone")
        how = f"has ended without a word{last}: it was killed, perhaps for lack of memory, or has ended itself"
        return Ending(rank, f"rank {rank}{here} {how}")


class Coordinator(Watch):
    """Rank 0's watch, which the others reach at `port`, if they know the `token`."""

    def __init__(
        self,
        size: int,
        patience: float,
        alone: bool,
        hello: Mapping[str, Any],
        doing: Callable[[], Doing],
        end: Callable[[Ending], object],
    ) -> None:
        super().__init__(0, hello, doing, end)
        self._size, self._patience = size, patience
        self._listener: socket.socket | None = listen(alone)
        self.port, self.token = self._listener.getsockname()[1], secrets.token_hex(_TOKEN)
        self._began = monotonic()
        self._strangers: list[Wire] = []
        self._wires: dict[int, Wire] = {}
        self._known: dict[int, Mapping[str, Any]] = {0: self._hello}
        self._heard: dict[int, float] = {}
        self._doings: dict[int, Doing] = {0: Doing("", False)}
        self._since: dict[int, float] = {}
        """Since when a rank waits for the same message."""
        self._done: set[int] = set()
        self._decided = 0.0
        self._see_whether_all_are_here()
        self._thread.start()

    def _listened(self) -> list[Any]:
        return [*self._wires.values(), *self._strangers, *([self._listener] if self._listener else [])]

    def _hear(self, one: Any) -> None:
        if self._listener is not None and one is self._listener:
            with suppress(OSError):
                self._strangers.append(Wire(self._listener.accept()[0], SILENCE))
            return
        messages = one.receive()
        if one in self._strangers:
            self._meet(one, messages)
            return
        rank = next((rank for rank, wire in self._wires.items() if wire is one), None)
        if rank is None:
            return
        for what, *content in messages or []:
            self._heard[rank] = monotonic()
            if what == "life":
                self._note(rank, Doing(*content))
            elif what == "failed":
                self._decide(Ending(rank, content[0]))
            elif what == "done":
                self._done.add(rank)
                self._see_whether_all_are_done()
        if messages is None:
            del self._wires[rank]
            one.close()
            if rank not in self._done:
                self._decide(self._gone(rank, self._here(rank), self._doings[rank].where, silent=False))

    def _meet(self, stranger: Wire, messages: list[Message] | None) -> None:
        if messages == []:
            return
        if not messages or messages[0][:2] != ["hello", self.token]:
            self._strangers.remove(stranger)
            stranger.close()
            return
        _, _, rank, hello = messages[0]
        for what, ours in self._hello["same"].items():
            if hello["same"].get(what) != ours:
                self._decide(
                    Ending(
                        rank,
                        f"rank {rank} ({hello['here']}) has {what} {hello['same'].get(what)}, and "
                        f"rank 0{self._here(0)} has {ours}: start all of them with the same",
                    )
                )
        if rank in self._known:
            both = f"{self._known[rank]['here']} and {hello['here']}"
            self._decide(Ending(rank, f"two processes were started as rank {rank}: {both}"))
        if self._verdict is not None:
            stranger.send("end", *self._verdict)
        else:
            self._strangers.remove(stranger)
            self._wires[rank], self._known[rank] = stranger, hello
            self._heard[rank], self._doings[rank] = monotonic(), Doing("", False)
            self._see_whether_all_are_here()

    def _see_whether_all_are_here(self) -> None:
        if len(self._known) < self._size:
            return
        self.hellos = [self._known[rank] for rank in range(self._size)]
        if self._listener:
            self._listener.close()
            self._listener = None
        self._send("all", self.hellos)
        self._joined.set()

    def _beat(self, doing: Doing) -> None:
        self._send("life", doing.where)
        self._note(0, doing)
        now = monotonic()
        if self._listener and now - self._began > self._patience:
            missing = [rank for rank in range(self._size) if rank not in self._known]
            self._decide(
                Ending(
                    missing[0],
                    f"rank {', '.join(map(str, missing))} has not started within {self._patience:g} s, and "
                    f"{self._size} ranks were announced. Start all of them, with the same --nnodes and "
                    "--nproc-per-node; look at what that one printed",
                )
            )
        for rank, heard in self._heard.items():
            if rank in self._wires and now - heard > SILENCE:
                self._decide(self._gone(rank, self._here(rank), self._doings[rank].where, silent=True))
        waiting = sorted(self._doings.keys() - self._done)
        if self._done and waiting and all(now - self._since.get(rank, now) > _STUCK for rank in waiting):
            who = " and ".join(f"rank {rank}{self._doings[rank].where}" for rank in waiting)
            left = min(self._done)
            self._decide(
                Ending(
                    left,
                    f"rank {left} has left without an error, but {who} still {'wait' if waiting[1:] else 'waits'} "
                    "for a message: every rank must make the same steps, over as many mini-batches",
                )
            )

    def _note(self, rank: int, doing: Doing) -> None:
        if not doing.waits:
            self._since.pop(rank, None)
        elif rank not in self._since or self._doings[rank] != doing:
            self._since[rank] = monotonic()
        self._doings[rank] = doing

    def _pardon(self, now: float) -> None:
        self._heard = dict.fromkeys(self._heard, now)
        self._since = dict.fromkeys(self._since, now)

    def _decide(self, verdict: Ending) -> None:
        if self._verdict is None:
            self._decided = monotonic()
            super()._decide(verdict)
            self._send("end", *verdict)

    def _tell(self, why: str) -> None:
        self._decide(Ending(0, why))

    def _be_done(self) -> None:
        self._done.add(0)
        self._see_whether_all_are_done()

    def _see_whether_all_are_done(self) -> None:
        if len(self._done) == self._size:
            self._send("done")
            self._through.set()

    def stop(self) -> None:
        """Once the others have closed their connections, on which they still read."""
        end = monotonic() + GRACE
        while self._wires and monotonic() < end:
            self._thread.join(0.01)
        super().stop()
        for one in self._listened():
            one.close()

    def _is_last(self) -> bool:
        return not self._wires or monotonic() - self._decided > GRACE

    def _send(self, *message: Any) -> None:
        for wire in list(self._wires.values()):
            wire.send(*message)

    def _here(self, rank: int) -> str:
        return f" ({self._known[rank]['here']})" if rank in self._known else ""


class Follower(Watch):
    """The watch of every other rank, connected to rank 0's."""

    def __init__(
        self,
        rank: int,
        address: tuple[str, int],
        token: str,
        hello: Mapping[str, Any],
        doing: Callable[[], Doing],
        end: Callable[[Ending], object],
    ) -> None:
        super().__init__(rank, hello, doing, end)
        self._wire = Wire(socket.create_connection(address, timeout=SILENCE), SILENCE)
        self._first, self._heard = "", monotonic()
        self._wire.send("hello", token, rank, self._hello)
        self._thread.start()

    def _listened(self) -> list[Any]:
        return [] if self._verdict is not None or self._through.is_set() else [self._wire]

    def _hear(self, one: Any) -> None:
        messages = one.receive()
        for what, *content in messages or []:
            self._heard = monotonic()
            if what == "all":
                self.hellos = content[0]
                self._joined.set()
            elif what == "life":
                self._first = content[0]
            elif what == "end":
                self._decide(Ending(*content))
            elif what == "done":
                self._through.set()
        if messages is None and not self._through.is_set():
            self._decide(self._gone(0, self._here(), self._first, silent=False))

    def _beat(self, doing: Doing) -> None:
        self._wire.send("life", *doing)
        if monotonic() - self._heard > SILENCE and not self._through.is_set():
            self._decide(self._gone(0, self._here(), self._first, silent=True))

    def _pardon(self, now: float) -> None:
        self._heard = now

    def _tell(self, why: str) -> None:
        self._wire.send("failed", why)

    def _be_done(self) -> None:
        self._wire.send("done")

    def _is_last(self) -> bool:
        return True

    def _here(self) -> str:
        return f" ({self.hellos[0]['here']})" if self.hellos else ""

    def stop(self) -> None:
        """Rank 0 waits for the end of the connection."""
        super().stop()
        self._wire.close()


def _leave_it_to_the_watch(number: int, frame: object) -> None:
    """Python's handler of SIGTERM: the wake-up descriptor has told the thread."""
