"""The ranks of one job: they find each other, agree on the job, and none outlives another's end.

A rank that has failed leaves its neighbours blocked inside a receive, where no exception can be raised. So each rank
has a thread that sends heartbeats, reads those of the others, and ends its process with a sentence when one is gone:

    store:   kind/RANK    "cpu" or "cuda", or why it can have neither of them
             here/RANK    host and process, once it has joined
             job/RANK     what it is about to do, to be compared
             life/RANK    a heartbeat, a growing count, and the op that is running
             failed       the first failure that a rank could report
             done/RANK    it has ended without an error
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Final, NoReturn

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gpipe_edu.words import plural

from .interface import choose

_BEAT: Final = 0.5
"""Seconds between two heartbeats."""

_SILENCE: Final = 6.0
"""Seconds without a heartbeat after which a rank counts as gone: on a busy machine a few may be late."""

_GROUP: Final = timedelta(minutes=30)
"""The limit of every wait inside PyTorch; missing heartbeats usually end a process long before."""

_BACKENDS: Final = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
"""What carries tensors. With GPUs, questions that are about no tensor still go from host to host."""

_ECHO: Final = ("onnection", "peer", "imed out", "closed", "reset", "Broken pipe")
"""Words in an error that is caused here by the end of a neighbour."""


class RanksError(RuntimeError):
    """The ranks can't work together; the sentence says which one, why, and what to do."""


class Ranks:
    """`with Ranks(patience) as ranks:` this process joins the others; if one of them ends, all end.

    The launcher assigns ranks through the environment, as `torchrun` does: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
    MASTER_PORT. patience: seconds to wait for the others to start. device: "cpu", "cuda", or "auto", a GPU for each
    rank if all can have one. now: the op that is running, for reports; .device: this rank's.

    Raises RanksError for missing variables, ranks that do not come, a port that is taken, or GPUs that are not there.
    """

    def __init__(self, patience: float = 20, device: str = "auto") -> None:
        names = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        if lacking := [name for name in names if name not in os.environ]:
            raise RanksError(
                f"{', '.join(lacking)} not set: start this with torchrun, which sets them, such as "
                "torchrun --nproc-per-node 2 -m gpipe_edu train --partitions 2"
            )
        if os.environ["MASTER_PORT"] == "0":
            raise RanksError("MASTER_PORT is 0; give a port that all ranks know, or, on one machine, --standalone")
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.now: Callable[[], object] = lambda: None
        choose(os.environ["MASTER_ADDR"])
        self._over = threading.Event()
        self._store = self._find(patience)
        self._store.set(f"kind/{self.rank}", _kind(device))
        self._store.set(f"here/{self.rank}", f"{socket.gethostname()}, process {os.getpid()}")
        self._wait_for("here", "has not started", patience)
        self.device = self._device()
        if hasattr(signal, "pthread_sigmask"):  # a thread waits for it below: the main one may be inside a receive
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        self._guard = threading.Thread(target=self._watch, name="ranks", daemon=True)
        self._beat = monotonic()
        self._guard.start()
        threading.Thread(target=self._watch_the_watch, name="ranks' watch", daemon=True).start()
        try:
            dist.init_process_group(
                _BACKENDS[self.device.type],
                store=c10d.PrefixStore("group", self._store),
                rank=self.rank,
                world_size=self.size,
                timeout=_GROUP,
            )
        except RuntimeError as error:
            self._let_the_guard_tell()
            unreached = RanksError(
                f"rank {self.rank} can't open a connection to the others ({_words(error)}). Ports between the machines "
                "must be open; if a machine has several networks, say which one to take, such as "
                "GLOO_SOCKET_IFNAME=eth0 before torchrun (ip address lists them)"
            )
            self._fail(unreached)
        except BaseException as error:
            self._fail(error)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._leave()
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        """Report `error` to the others, print it, and end this process."""
        if isinstance(error, RuntimeError) and not isinstance(error, RanksError) and _echoes(error):
            self._let_the_guard_tell()
        with suppress(Exception):
            self._store.compare_set("failed", "", json.dumps([self.rank, self._where(), _words(error)]))
        if isinstance(error, RanksError):
            self._end(str(error))
        if isinstance(error, KeyboardInterrupt):
            self._end(f"rank {self.rank} was interrupted{self._where()}")
        traceback.print_exception(error)
        self._end(f"rank {self.rank} failed{self._where()}: {_words(error)}")

    def _let_the_guard_tell(self) -> None:
        """Give the guard thread time: it may know which rank is gone, and end this process with a better sentence."""
        self._guard.join(_SILENCE + 4 * _BEAT)

    def agree(self, job: Mapping[str, object]) -> None:
        """Compare `job`, such as {"schedule": text}, with that of the others.

        Raises RanksError, on every rank, naming the first rank whose job is another one, and where.
        """
        self._store.set(f"job/{self.rank}", json.dumps({name: str(value) for name, value in job.items()}))
        self._wait_for("job", "has joined, but not said what it is about to run,", _GROUP.total_seconds())
        jobs = [json.loads(self._store.get(f"job/{rank}")) for rank in range(self.size)]
        for rank, theirs in enumerate(jobs):
            for name in dict.fromkeys([*jobs[0], *theirs]):
                ours, found = jobs[0].get(name, "none"), theirs.get(name, "none")
                if ours != found:
                    raise RanksError(
                        f"rank {rank} has another {name} than rank 0. Rank 0:\n{ours}\nRank {rank}:\n{found}\n"
                        "Start every rank with the same command."
                    )

    def _device(self) -> torch.device:
        """A GPU for each rank, or for none: all must send their messages the same way."""
        kinds = [self._store.get(f"kind/{rank}").decode() for rank in range(self.size)]
        for rank, kind in enumerate(kinds):
            if kind not in _BACKENDS:
                raise RanksError(f"rank {rank}: {kind}")
        if "cpu" in kinds:
            return torch.device("cpu")
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)

    def _find(self, patience: float) -> Any:
        """The store where ranks meet: torchrun's own, or rank 0's."""
        where = _address()
        agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        try:
            store = dist.TCPStore(  # type: ignore[attr-defined]
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                is_master=self.rank == 0 and not agent,
                timeout=timedelta(seconds=patience),
                wait_for_workers=False,  # we wait ourselves, and name those we wait for
            )
        except (RuntimeError, ValueError) as error:
            if "EADDRINUSE" in str(error) or "in use" in str(error):
                raise RanksError(
                    f"port {where} is in use, perhaps by a job that still runs; give another one, such as "
                    "--master-port 29501"
                ) from error
            raise RanksError(
                f"rank {self.rank} reached nobody at {where} within {patience:g} s ({_words(error)}): is rank 0 "
                "started, is this its address, and may this port be reached from here?"
            ) from error
        # A torchrun that starts its ranks again keeps the store, and what the earlier ones have said in it.
        run = os.environ.get("TORCHELASTIC_RUN_ID", "job"), os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return c10d.PrefixStore("/".join(run), store)

    def _wait_for(self, what: str, lacks: str, patience: float) -> None:
        """Wait until every rank has set its key `what`."""
        end = monotonic() + patience
        while True:
            try:
                silent = [rank for rank in range(self.size) if not self._store.check([f"{what}/{rank}"])]
            except RuntimeError as error:
                raise RanksError(
                    f"the store at {_address()} is gone, so rank 0 or the torchrun that holds it has ended, while rank "
                    f"{self.rank} waited for the others: look at what that one printed"
                ) from error
            if not silent:
                return
            if monotonic() > end:
                who = ", ".join(map(str, silent))
                raise RanksError(
                    f"rank {who} {lacks} within {patience:g} s, so rank {self.rank} ends: {self.size} ranks were "
                    "announced. Start all of them with the same --nnodes and --nproc-per-node; look at what that one "
                    "printed"
                )
            sleep(0.05)

    def _leave(self) -> None:
        """End well, together: rank 0 may hold the store."""
        self._store.set(f"done/{self.rank}", "")
        self._wait_for("done", "is not through", _GROUP.total_seconds())
        self._over.set()
        self._guard.join()
        dist.destroy_process_group()

    def _watch(self) -> None:
        """Send heartbeats and read the others', until the end."""
        store = self._store.clone()  # a connection of its own: the other one may be inside a wait
        lives: dict[int, tuple[str, float]] = {}
        count, asked_to_end = 0, 0.0
        while not self._over.is_set():
            count += 1
            self._beat = monotonic()
            try:
                store.set(f"life/{self.rank}", f"{count} {self._where()}")
                if store.check(["failed"]):
                    rank, where, words = json.loads(store.get("failed"))
                    if rank != self.rank:
                        self._end(f"rank {rank} failed{where}: {words}\nso rank {self.rank} ends too{self._where()}")
                for rank in range(self.size):
                    if rank == self.rank or store.check([f"done/{rank}"]):
                        continue
                    sign = store.get(f"life/{rank}").decode() if store.check([f"life/{rank}"]) else ""
                    if lives.get(rank, ("", 0.0))[0] != sign or rank not in lives:
                        lives[rank] = sign, monotonic()
                    elif monotonic() - lives[rank][1] > _SILENCE:
                        last, who = sign.partition(" ")[2], store.get(f"here/{rank}").decode()
                        self._end(
                            f"rank {rank} ({who}) gave no sign of life for {_SILENCE:g} s. "
                            f"It was killed, or its machine is gone; it was last seen{last or ' before its first op'}."
                            f"\nSo rank {self.rank} ends too{self._where()}"
                        )
            except RuntimeError as error:
                if not self._over.is_set():
                    self._end(
                        f"the store at {_address()} is gone, so rank 0 or the torchrun that holds it has ended "
                        f"({_words(error)}); rank {self.rank} ends too{self._where()}"
                    )
            if asked_to_end and monotonic() - asked_to_end > _SILENCE + 2:
                self._end(f"rank {self.rank} was told to end (SIGTERM){self._where()}")
            if _wait_for_signal(_BEAT) and not asked_to_end:
                asked_to_end = monotonic()

    def _watch_the_watch(self) -> None:
        """If the store's machine loses power, requests to it never return: this thread watches without any."""
        while not self._over.wait(_BEAT):
            if monotonic() - self._beat > 2 * _SILENCE:
                self._end(
                    f"the store at {_address()} has not answered for {2 * _SILENCE:g} s: the machine of rank 0 or the "
                    f"network to it is gone; rank {self.rank} ends too{self._where()}"
                )

    def _where(self) -> str:
        """What this rank is doing, as the end of a sentence."""
        op: Any = self.now()
        return "" if op is None else f" at {op.label} of stage {op.stage}, micro-batch {op.micro_batch}"

    def _end(self, sentence: str) -> NoReturn:
        """End this process at once: its main thread may be inside a receive that nothing interrupts."""
        print(f"\n{sentence}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)


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


def _address() -> str:
    return f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"


def _echoes(error: BaseException) -> bool:
    return any(word in str(error) for word in _ECHO)


def _wait_for_signal(seconds: float) -> bool:
    """Wait so long; True if a signal asks this process to end meanwhile."""
    if hasattr(signal, "sigtimedwait"):
        return signal.sigtimedwait({signal.SIGTERM}, seconds) is not None
    sleep(seconds)
    return False


def _words(error: BaseException) -> str:
    """Our own errors in full; of others the original one, in one line: PyTorch wraps those of a layer."""
    if isinstance(error, RanksError):
        return str(error)
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return ": ".join([type(error).__name__, *lines[:1]])[:500]


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
