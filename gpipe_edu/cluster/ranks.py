"""The ranks of one job: they find each other, agree on the job, and none outlives another's end.

They meet at PyTorch's store, which rank 0 or torchrun holds, where they find the way to rank 0's watch; `watch.py` has
what they then tell each other until the end.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d as c10d

from gpipe_edu.base.words import plural

from . import messages
from .watch import GRACE, SILENCE, Coordinator, Doing, Ending, Follower, Watch
from .wire import choose, is_alone

_GROUP: Final = timedelta(minutes=30)
"""The limit of every wait inside PyTorch; the watch usually ends a process long before."""

_BACKENDS: Final = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""What carries tensors. With GPUs, questions that involve no tensor still go from host to host."""

_ECHO: Final = ("onnection", "peer", "imed out", "closed", "reset", "Broken pipe")
"""Words in an error that is caused here by the end of a neighbour."""

_DISTRIBUTED: Final = str(Path(dist.__file__).parent)
_WAITS: Final = (_DISTRIBUTED, messages.__file__)
"""Files in which a working thread waits for a message."""

_CHECKPOINT: Final = os.path.join(_DISTRIBUTED, "checkpoint")
"""It writes files, which is not waiting for a message."""

_ENGINES: Final = (_DISTRIBUTED, str(Path(__file__).parent), nn.modules.module.__file__, nn.modules.container.__file__)
"""Files whose lines in a traceback say nothing about the error of a layer."""


class RanksError(RuntimeError):
    """The ranks can't work together; the sentence says which one, why, and what to do."""


class Failure(NamedTuple):
    """What ends a rank. sentence, status: its last words and exit status. trace: printed before. echoes: whether it may
    be caused by another rank's end."""

    sentence: str
    status: int
    trace: str
    echoes: bool


_joined: Final[list[Ranks]] = []
"""Those of this process: none, or one."""


class Ranks:
    """`with Ranks(patience) as ranks:` this process joins the others; if one of them ends, all end.

    The launcher assigns ranks through the environment, as `torchrun` does: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
    MASTER_PORT. patience: seconds to wait for the others to start. device: "cpu", "cuda", or "auto", a GPU for each
    rank if all can have one. now: the op that is running, for reports; .device: this rank's.

    Raises RanksError for missing variables, a process group that exists already, ranks that do not come, a port that is
    taken, or missing GPUs.
    """

    def __init__(self, patience: float = 20, device: str = "auto") -> None:
        if dist.is_initialized():
            raise RanksError(
                "this process has a process group already; leave torch.distributed.init_process_group() out, since "
                "Ranks() calls it, or leave Ranks() out: Pipeline(...) works in any group, but without Ranks a rank "
                "that ends leaves the others waiting"
            )
        names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        if lacking := [name for name in names if name not in os.environ]:
            raise RanksError(
                f"{', '.join(lacking)} not set: start this with torchrun, which sets them, such as "
                "torchrun --nproc-per-node 2 -m gpipe_edu train --partitions 2"
            )
        if os.environ["MASTER_PORT"] == "0":
            raise RanksError("MASTER_PORT is 0; give a port that all ranks know, or, on one machine, --standalone")
        self.rank, self.size, self.local_rank = _number("RANK"), _number("WORLD_SIZE"), _number("LOCAL_RANK", "0")
        if self.rank >= self.size:
            raise RanksError(f"RANK is {self.rank}, but WORLD_SIZE is {self.size}: ranks are counted from 0")
        self.now: Callable[[], object] = lambda: None
        choose(os.environ["MASTER_ADDR"])
        self._main, self._ending = threading.get_ident(), threading.Lock()
        self._failure: Failure | None = None
        with _without_frames():
            self._watch = self._join(patience, device)
        if verdict := self._watch.wait_for_all():
            raise RanksError(self._told(verdict))
        self.device = self._device()
        # PyTorch prints the whole schedule of a step that failed, on every rank, above the sentence that says why.
        logging.getLogger("torch.distributed.pipelining.schedules").setLevel(logging.CRITICAL)
        self._watch.enforced = True
        if threading.current_thread() is threading.main_thread():
            self._watch.listen_to_signals()
        try:
            dist.init_process_group(
                _BACKENDS[self.device.type],
                store=c10d.PrefixStore("group", self._store),
                rank=self.rank,
                world_size=self.size,
                timeout=_GROUP,
            )
        except RuntimeError as error:
            self._watch.join(GRACE)  # it may know which rank is gone
            unreached = RanksError(
                f"rank {self.rank} can't open a connection to the others ({_words(error)}). Ports between the machines "
                "must be open; if a machine has several networks, say which one to take, such as "
                "GLOO_SOCKET_IFNAME=eth0 before torchrun (ip address lists them)"
            )
            self._fail(unreached)
        except BaseException as error:
            self._fail(error)
        _joined.append(self)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        if error is None or (isinstance(error, SystemExit) and not error.code):
            try:
                self._leave()
            except BaseException as interrupted:
                self._fail(interrupted)
        else:
            self._fail(error)

    def agree(self, job: Mapping[str, object]) -> None:
        """Compare `job`, such as {"schedule": text}, with that of the others.

        Raises RanksError, on every rank, naming the first rank whose job differs, and where.
        """
        jobs = gather({name: str(value) for name, value in job.items()})
        for rank, theirs in enumerate(jobs):
            for name in dict.fromkeys([*jobs[0], *theirs]):
                ours, found = jobs[0].get(name, "none"), theirs.get(name, "none")
                if ours != found:
                    raise RanksError(
                        f"rank {rank} has another {name} than rank 0. Rank 0:\n{ours}\nRank {rank}:\n{found}\n"
                        "Start every rank with the same command."
                    )

    def note(self, error: BaseException) -> None:
        """`error` has ended, on this rank, what all ranks do together, so all of them must end: at once where this rank
        goes on to another such call or leaves, whatever has caught the error, and in any case soon."""
        if self._failure is None:
            self._failure = self._failure_of(error)
            self._watch.doom(self._failure.sentence)

    def end(self) -> None:
        """If something was noted, tell the others, print it, and end this process."""
        if self._failure is not None:
            self._end_all(self._failure)

    def _failure_of(self, error: BaseException) -> Failure:
        where, status, trace = self._where(), 1, ""
        if isinstance(error, RanksError):
            sentence = str(error)
        elif isinstance(error, KeyboardInterrupt):
            sentence = f"rank {self.rank} was interrupted{where}"
        elif isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else 1
            sentence = f"rank {self.rank} has ended itself{where}: sys.exit({error.code!r})"
        else:
            sentence, trace = f"rank {self.rank} failed{where}: {_words(error)}", _traceback(error)
        return Failure(sentence, status, trace, isinstance(error, RuntimeError) and _echoes(error))

    def _fail(self, error: BaseException) -> NoReturn:
        self._end_all(self._failure_of(error))

    def _end_all(self, failure: Failure) -> NoReturn:
        """Report `failure` to the others, print it, and end this process."""
        if failure.echoes:
            self._watch.join(SILENCE + GRACE)  # it is about to know which rank is gone
        print(failure.trace, file=sys.stderr, end="")
        self._watch.report(failure.sentence)
        self._end(failure.sentence, failure.status)

    def _device(self) -> torch.device:
        """A GPU for each rank, or for none: all must send their messages the same way."""
        kinds = [hello["kind"] for hello in self._watch.hellos]
        for rank, kind in enumerate(kinds):
            if kind not in _BACKENDS:
                raise RanksError(f"rank {rank}: {kind}")
        if "cpu" in kinds:
            return torch.device("cpu")
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def _join(self, patience: float, device: str) -> Watch:
        """Meet at the store, and from there go to rank 0's watch."""
        ours = sys.modules["gpipe_edu"].__version__  # whose module a room does not import
        hello = {
            "here": f"{socket.gethostname()}, process {os.getpid()}",
            "kind": _kind(device),
            "same": {"WORLD_SIZE": self.size, "gpipe_edu": ours, "PyTorch": torch.__version__},
        }
        end = monotonic() + patience
        if self.rank == 0:
            alone = is_alone(os.environ["MASTER_ADDR"])
            first = Coordinator(self.size, patience, alone, hello, self._doing, self._end_with)
            try:
                self._store = self._find(patience)
                self._store.set("watch", json.dumps(["127.0.0.1" if alone else "", first.port, first.token]))
            except BaseException:
                first.stop()
                raise
            return first
        self._store = self._find(patience)
        try:
            while not self._store.check(["watch"]) and monotonic() < end:
                sleep(0.05)
            found = self._store.get("watch") if self._store.check(["watch"]) else None
        except RuntimeError as error:
            raise RanksError(
                f"rank 0, or the torchrun that holds its store, has ended; so rank {self.rank} ends too"
            ) from error
        if found is None:
            raise RanksError(f"rank 0 has not started within {patience:g} s, so rank {self.rank} ends")
        host, port, token = json.loads(found)
        host = host or os.environ["MASTER_ADDR"]
        try:
            return Follower(self.rank, (host, port), token, hello, self._doing, self._end_with)
        except OSError as error:
            raise RanksError(
                f"rank {self.rank} has reached port {os.environ['MASTER_PORT']} of {host}, but not port {port} "
                f"({_words(error)}): has rank 0 ended, or are only some ports open between the machines?"
            ) from error

    def _find(self, patience: float) -> Any:
        """The store where ranks meet: torchrun's own, or rank 0's."""
        agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        master = self.rank == 0 and not agent
        try:
            if not master:
                self._reach(patience)
            store = dist.TCPStore(  # type: ignore[attr-defined]
                os.environ["MASTER_ADDR"],
                _number("MASTER_PORT"),
                is_master=master,
                timeout=timedelta(seconds=patience),
                wait_for_workers=False,  # we wait ourselves, and name those we wait for
            )
        except (RuntimeError, ValueError, OSError) as error:
            if "EADDRINUSE" in str(error) or "in use" in str(error):
                raise RanksError(
                    f"port {_address()} is in use, perhaps by a job that still runs; give another one, such as "
                    "--master-port 29501"
                ) from error
            raise RanksError(
                f"rank {self.rank} reached nobody at {_address()} within {patience:g} s ({_words(error)}): is rank 0 "
                "started, is this its address, and may this port be reached from here?"
            ) from error
        # A torchrun that starts its ranks again keeps the store, with what the earlier ones have said in it.
        run = os.environ.get("TORCHELASTIC_RUN_ID", "job"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return c10d.PrefixStore("/".join(run), store)

    def _reach(self, patience: float) -> None:
        """Wait until the store can be reached: PyTorch could wait itself, but prints C++ frames if it waits in vain."""
        end = monotonic() + patience
        while True:
            try:
                socket.create_connection((os.environ["MASTER_ADDR"], _number("MASTER_PORT")), timeout=patience).close()
                return
            except OSError:
                if monotonic() > end:
                    raise
                sleep(0.1)

    def _leave(self) -> None:
        """End well, together."""
        _joined.remove(self)
        self._watch.leave()
        if threading.current_thread() is threading.main_thread():
            self._watch.forget_signals()
        dist.destroy_process_group()
        self._watch.stop()

    def _doing(self) -> Doing:
        """What the thread that made this object is doing."""
        frame = sys._current_frames().get(self._main)
        file = "" if frame is None else frame.f_code.co_filename
        return Doing(self._where(), file.startswith(_WAITS) and not file.startswith(_CHECKPOINT))

    def _where(self) -> str:
        """What this rank is doing, as the end of a sentence."""
        op: Any = None
        with suppress(Exception):  # a function of the user's, called at any moment
            op = self.now()
        return "" if op is None else f" at {op.label} of stage {op.stage}, micro-batch {op.micro_batch}"

    def _told(self, verdict: Ending) -> str:
        if verdict.rank == self.rank:
            return verdict.why
        why = verdict.why if verdict.why.endswith("?") else f"{verdict.why.rstrip('.')}."
        return f"{why} So rank {self.rank} ends too{self._where()}"

    def _end_with(self, verdict: Ending) -> NoReturn:
        self._end(self._told(verdict), 1)

    def _end(self, sentence: str, status: int) -> NoReturn:
        """End this process at once: its main thread may be inside a receive that nothing interrupts."""
        self._ending.acquire()  # for good: two threads may have something to say
        print(f"\n{sentence}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        for child in multiprocessing.active_children():  # a loader's workers
            child.kill()
        os._exit(status)


def note_failure(error: BaseException) -> None:
    """`error` has ended, on this rank, what all ranks do together; see `Ranks.note`."""
    for ranks in _joined:
        ranks.note(error)


def end_by_failure(sentence: str, again: bool) -> NoReturn:
    """End the job for what was noted: with Ranks, all of them at once. Without, raises SystemExit, which a loop that
    goes on after errors does not catch; one that does, and comes here `again`, is ended. Other ranks then find their
    connection to this one closed."""
    for ranks in _joined:
        ranks.end()
    if again:
        print(sentence, file=sys.stderr, flush=True)
        os._exit(1)
    raise SystemExit(sentence)


def refuse_together(complaint: str, group: Any = None) -> None:
    """Raises ValueError on every rank of `group` if one has a complaint: one that raised alone would leave the others
    waiting.

    All ranks of the group call this; all of them raise the first complaint that is not "".
    """
    for found in filter(None, gather(complaint, group)):
        raise ValueError(found)


def gather(mine: Any, group: Any = None) -> list[Any]:
    """What each rank of `group` gave, in their order. All of them call this together."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, mine, group=group)
    return found


@contextmanager
def _without_frames() -> Iterator[None]:
    """PyTorch's store prints C++ frames if rank 0 ends while we look for it; its exception says all that matters.

    It prints to the descriptor itself. Nothing else is printed meanwhile: the watch, which has a thread, raises.
    """
    if sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _address() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def _number(name: str, default: str | None = None) -> int:
    text = os.environ.get(name, default) or ""
    if not text.isdecimal():
        raise RanksError(f"{name} is {text!r}; it must be a whole number")
    return int(text)


def _echoes(error: BaseException) -> bool:
    return any(word in str(error) for word in _ECHO)


def _traceback(error: BaseException) -> str:
    """It without the engines' lines, which outnumber the program's."""
    found = traceback.TracebackException.from_exception(error)
    kept = [line for line in found.stack if not line.filename.startswith(_ENGINES)]
    found.stack = traceback.StackSummary.from_list(kept or found.stack)
    return "".join(found.format())


def _words(error: BaseException) -> str:
    """Our own errors in full; only the first line of others, with our notes on it."""
    if isinstance(error, RanksError):
        return str(error)
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1], *getattr(error, "__notes__", [])])[:700]


def _kind(wish: str) -> str:
    """ "cpu" or "cuda", if each rank of this machine can have one; or what is wrong with the wish."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if wish not in ("auto", "cpu", "cuda"):
        return f"device is {wish!r}; it must be one of auto, cpu, cuda"
    if wish == "cuda" and count < here:
        found = f"{plural(count, 'GPU')} for {plural(here, 'rank')}"
        return f"device is 'cuda', but its machine has {found}; use --device cpu"
    return "cpu" if wish == "cpu" or count < here else "cuda"
