"""What one process did, by a profile: when each op of the pipeline worked, and when its messages were under way.

An op's mark holds more than its work. On a CPU it begins with the wait for the op's message, whose end gloo's
annotations tell; without those it shows as a time without operations. On a GPU the mark tells only when the host
launched the work: there, what counts is the kernels launched within the mark, on any thread, since autograd launches
most of a backward on a thread of its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, pairwise
from sys import intern
from typing import Any, Final, NamedTuple

import numpy as np

from gpipe_edu.base.bounded import TooMuchError
from gpipe_edu.schedule.op import MOST_MICRO_BATCHES, MOST_STAGES

from .exchanges import CALLS, ENDS, Call, Exchanged, exchanged, merged, sizes_of_call, sizes_of_kernel, with_ends
from .op_names import ONE_BY_ONE, Named, Transfer, ops_of, transfer_of
from .trace_file import TraceFile, distributed_info

KERNELS, OPERATIONS, MARKS = "GPU kernels", "operations on the CPU", "marks as they stand, waits included"
"""What ops were timed by, from the best to the worst."""

_MESSAGES: Final = ("c10d::", "_c10d_functional::", "record_param_comms", "nccl:", "gloo:")
"""Beginnings of the names of operations that send, receive or wait: they are what an op waits for."""

_RECEIVES: Final = "c10d::recv"
"""Beginning of the name of the operation that asks for a message: what an op does before it is no work."""

_SENDS: Final = "c10d::send"
"""Beginning of the name of the operation that sends what an op has made: what follows it is no work."""

_WAITS: Final = "gloo:"
"""Beginning of the annotation of a message that was awaited: it ends with the wait."""

_AUTOGRAD: Final = "autograd::engine::evaluate_function"
"""Beginning of the name of an operation that only a backward has."""

_LAUNCHES: Final = frozenset(["cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "privateuse1_runtime"])
_ON_GPU: Final = frozenset(["kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"])
_NO_MARKS: Final = _LAUNCHES | _ON_GPU | {"cpu_op"}


_LATEST: Final = 1e17
"""Microseconds, 3,000 years: a later time is a mistake, and arithmetic with it loses whole milliseconds."""

_OFTEN: Final = 100
_MOST_ASKED: Final = 1_000_000
"""How often an operation may be looked at, in the mean, and how many may be in any case: marks hardly overlap."""

_MOST_LOOKS: Final = 5 * 10**7
"""For a kernel, into each thread that ran ops."""

_MOST_PROCESSES: Final = 20_000
_MOST_THREADS: Final = 100_000
_MOST_BARE: Final = 100_000
"""Events that do not even say of which phase they are."""


class TimedOp(NamedTuple):
    """When an op worked. mark: when its mark began on the host, in this thread. Times in microseconds."""

    op: Named
    start: float
    end: float
    mark: float
    thread: Any
    exchanged: Exchanged | None = None


class TimedTransfer(NamedTuple):
    """When one end of a message kept its GPU's link busy. mark: as in a TimedOp. Times in microseconds."""

    transfer: Transfer
    start: float
    end: float
    mark: float


class _Mark(NamedTuple):
    start: float
    end: float
    thread: Any
    name: str


class _Kernel(NamedTuple):
    """message: whether it only sends or receives. single: whether from one rank to another. sizes: of an exchange, how
    many numbers it sent and received."""

    correlation: int
    start: float
    end: float
    message: bool
    single: bool
    stream: Any
    sizes: tuple[int, int] | None


class _Intervals:
    """Starts and ends, in order of their start."""

    def __init__(self) -> None:
        self.starts, self.ends = array("d"), array("d")
        self._asked = 0

    def add(self, start: float, length: float) -> None:
        self.starts.append(start)
        self.ends.append(start + length)

    def sort(self) -> None:
        order = np.lexsort((self.ends, self.starts))
        self.starts, self.ends = (
            array("d", np.asarray(column)[order].tobytes()) for column in (self.starts, self.ends)
        )

    def within(self, start: float, end: float) -> tuple[float, float] | None:
        """From the start of the first that begins within this time to the last end of those; None if none does."""
        first, behind = self._begun(start, end)
        return (self.starts[first], max(self.ends[first:behind])) if first < behind else None

    def begun(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """All that begin within this time."""
        first, behind = self._begun(start, end)
        return zip(self.starts[first:behind], self.ends[first:behind], strict=True)

    def during(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """All that are under way in this time, if no two overlap."""
        first, behind = self._begun(start, end, bisect_right(self.ends, start))
        return zip(self.starts[first:behind], self.ends[first:behind], strict=True)

    def _begun(self, start: float, end: float, first: int | None = None) -> tuple[int, int]:
        first = bisect_left(self.starts, start) if first is None else first
        behind = bisect_left(self.starts, end)
        self._asked += behind - first
        if self._asked > _MOST_ASKED + _OFTEN * len(self.starts):
            raise _OverlapError
        return first, behind


class _OverlapError(Exception):
    """Marks that hold the same operations many times over."""


class _Process:
    """What one process of the host ran, as it stands in the file."""

    def __init__(self) -> None:
        self.threads: set[Any] = set()
        self.marks: list[_Mark] = []
        self.transfers: list[_Mark] = []
        self.operations: dict[Any, _Intervals] = defaultdict(_Intervals)
        self.backwards: dict[Any, _Intervals] = defaultdict(_Intervals)
        self.receives: dict[Any, _Intervals] = defaultdict(_Intervals)
        self.sends: dict[Any, _Intervals] = defaultdict(_Intervals)
        self.waited: dict[Any, list[float]] = defaultdict(list)
        self.exchanges: list[Call] = []
        self.exchange_ends: list[tuple[float, float]] = []
        self.launches: dict[int, tuple[float, Any]] = {}
        self.kernels: list[_Kernel] = []

    @property
    def intervals(self) -> tuple[dict[Any, _Intervals], ...]:
        """All that it has, by thread."""
        return self.operations, self.backwards, self.receives, self.sends


class Recording(NamedTuple):
    """The ops of one process, in the order in which the host ran them. by: KERNELS, OPERATIONS or MARKS. beside: stages
    that it sent something to, or received from."""

    ops: list[TimedOp]
    transfers: list[TimedTransfer]
    by: str
    beside: frozenset[int]


class Unreadable(ValueError):
    """What a file lacks, so that its ops' times can't be told: a key of `refusals`, and what its words need."""

    def __init__(self, lack: str, **words: object) -> None:
        super().__init__(lack)
        self.lack, self.words = lack, words


def recordings(file: TraceFile) -> Iterator[Recording]:
    """What each process did that runs ops; in a file that was merged of several, there is one for each rank.

    Raises Unreadable if a file has ops whose times can't be told, and if it has none.
    """
    processes: dict[Any, _Process] = defaultdict(_Process)
    found = _Sorter(file.name, processes)
    for event in file:
        found.take(event)
    running = [process for process in processes.values() if process.marks]
    if not running and found.one_by_one:
        raise Unreadable("one-by-one", op=found.one_by_one)
    if not running:
        raise Unreadable("no-ops", events=found.count)
    found.give_kernels(running)
    waits = any(process.waited for process in running)
    backend = distributed_info(file.about).get("backend")
    nccl = isinstance(backend, str) and "nccl" in backend and not waits  # with both, gloo's waits show
    for process in running:
        yield from _by_worker(process, _recording(process, gpu=found.gpu or nccl))


class _Sorter:
    """Puts each event of the file called `name` where it belongs."""

    def __init__(self, name: str, processes: dict[Any, _Process]) -> None:
        self._name, self._processes = name, processes
        self._kernels: list[tuple[_Kernel, _Process | None]] = []
        self._last: _Process | None = None
        self._switches = self._bare = self._threads = 0
        self.gpu, self.count, self.one_by_one = False, 0, ""

    def take(self, event: dict[str, Any]) -> None:
        if event.get("ph") != "X":
            self._bare += "ph" not in event
            if self._bare > _MOST_BARE:
                raise TooMuchError(f"{self._name} has many events that say nothing, and no trace has: export it anew")
            return
        self.count += 1
        category, name, thread = event.get("cat"), event.get("name"), event.get("tid")
        start, length = _time(event.get("ts")), _time(event.get("dur", 0))
        if (
            not isinstance(name, str)
            or not isinstance(category, str | None)
            or not isinstance(thread, int | str | None)
        ):
            return
        ops = () if category in _NO_MARKS else ops_of(name)
        if start is None or length is None or length < 0:
            if ops:
                raise Unreadable("no-time", op=name)
            return
        if category in _ON_GPU:
            self.gpu = True
            correlation = _correlation(event)
            if category == "kernel" and correlation is not None:
                called, sizes = name.lower(), sizes_of_kernel(name, event.get("args"))
                message, single = ("nccl" in called, "sendrecv" in called) if sizes is None else (False, False)
                kernel = _Kernel(correlation, start, start + length, message, single, thread, sizes)
                self._kernels.append((kernel, self._last))
            return
        if category == "cpu_op":
            process = self._process(event, thread)
            if name.startswith(_RECEIVES):
                process.receives[thread].add(start, length)
            elif name.startswith(_SENDS):
                process.sends[thread].add(start, length)
            elif name.startswith(CALLS):
                sizes = sizes_of_call(event.get("args"))
                process.exchanges.append(Call(start, start + length, *sizes, thread))
            elif not name.startswith(_MESSAGES):
                process.operations[thread].add(start, length)
                if name.startswith(_AUTOGRAD):
                    process.backwards[thread].add(start, length)
        elif category in _LAUNCHES:
            self.gpu |= "launch" in name.lower()  # the profiler itself waits for a GPU that nobody uses
            correlation = _correlation(event)
            if correlation is not None:
                process = self._process(event, thread)
                process.launches[correlation] = start, thread
                self._switches += process is not self._last
                self._last = process
        elif ops:  # times have three digits: what begins just as a mark ends belongs to the next
            if any(op.micro_batch >= MOST_MICRO_BATCHES or (op.stage or 0) >= MOST_STAGES for op in ops):
                raise Unreadable("beyond", op=name, stages=MOST_STAGES, micro_batches=MOST_MICRO_BATCHES)
            self._process(event, thread).marks.append(_Mark(start, round(start + length, 3), thread, intern(name)))
        elif name.startswith(ONE_BY_ONE):
            self.one_by_one = name
        elif name == ENDS:  # on a thread of gloo's own
            self._process(event, thread).exchange_ends.append((start, start + length))
        elif name.startswith(_WAITS):
            self._process(event, thread).waited[thread].append(round(start + length, 3))
        elif transfer_of(name):
            self._process(event, thread).transfers.append(_Mark(start, round(start + length, 3), thread, name))

    def _process(self, event: dict[str, Any], thread: Any) -> _Process:
        """The process of an event. Raises TooMuchError for more of them, or more threads, than any trace has."""
        number = event.get("pid")
        if not isinstance(number, int | str | tuple | None):
            number = None
        process = self._processes[number]
        if thread not in process.threads:
            process.threads.add(thread)
            self._threads += 1
            if self._threads > _MOST_THREADS or len(self._processes) > _MOST_PROCESSES:
                raise TooMuchError(f"{self._name} has more processes or threads than any trace")
        return process

    def give_kernels(self, running: list[_Process]) -> None:
        """Give each kernel to the process that launched it.

        Processes count their launches alike, each from 1. In a merged file that has one rank after another, a kernel
        belongs to the rank among whose events it stands.
        """
        apart = self._switches <= len(running)
        launched: dict[int, tuple[_Process, ...]] = {}
        for process in running if self._kernels else ():
            alone = (process,)
            for correlation in process.launches:
                there = launched.get(correlation)
                launched[correlation] = alone if there is None else there + alone
        for kernel, last in self._kernels:
            of = launched.get(kernel.correlation, ())
            if len(of) > 1:
                if not apart or last is None or last not in of:
                    raise Unreadable("kernels-mixed", processes=len(running))
                of = (last,)
            for process in of:
                process.kernels.append(kernel)


def _correlation(event: dict[str, Any]) -> int | None:
    args = event.get("args")
    found = args.get("correlation") if isinstance(args, dict) else None
    return found if isinstance(found, int) else None


def _time(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and abs(value) <= _LATEST else None


def _recording(process: _Process, gpu: bool) -> Recording:
    try:
        return _recorded(process, gpu)
    except _OverlapError:
        raise Unreadable("overlap", op=process.marks[0].name) from None


def _recorded(process: _Process, gpu: bool) -> Recording:
    process.marks.sort(key=lambda mark: (mark.start, mark.end, mark.name))
    for mark, after in pairwise(process.marks):
        if mark == after:
            raise Unreadable("twice", op=mark.name)
    for intervals in chain(*(of.values() for of in process.intervals)):
        intervals.sort()
    for ends in process.waited.values():
        ends.sort()
    beside = frozenset(one.other.stage for mark in process.transfers if (one := transfer_of(mark.name)))
    if gpu:
        return Recording(list(_by_kernels(process)), list(_transfers(process)), KERNELS, beside)
    if any(process.operations[mark.thread].within(mark.start, mark.end) for mark in process.marks):
        return Recording(list(_by_operations(process)), [], OPERATIONS, beside)
    if pair := next((mark.name for mark in process.marks if len(ops_of(mark.name)) > 1), None):
        raise Unreadable("no-operations-in-pair", pair=pair)
    ops = [TimedOp(ops_of(mark.name)[0], mark.start, mark.end, mark.start, mark.thread) for mark in process.marks]
    return Recording(ops, [], MARKS, beside)


def _by_worker(process: _Process, found: Recording) -> Iterator[Recording]:
    """A recording for each thread that ran stages of its own: a process may play several devices."""
    stages: dict[Any, set[int | None]] = defaultdict(set)
    for op in found.ops:
        stages[op.thread].add(op.op.stage)
    if sum(map(len, stages.values())) > len(set[int | None]().union(*stages.values())):
        yield found
        return
    for thread in stages:
        yield found._replace(ops=[op for op in found.ops if op.thread == thread])


def _by_operations(process: _Process) -> Iterator[TimedOp]:
    calls: dict[Any, list[Call]] = defaultdict(list)
    for call in with_ends(process.exchanges, process.exchange_ends):
        calls[call.thread].append(call)
    began = {thread: [call.start for call in mine] for thread, mine in calls.items()}
    for mark in process.marks:
        operations, receives = process.operations[mark.thread], process.receives[mark.thread]
        waited = process.waited.get(mark.thread)
        for op, start, end in _parts(mark, process.backwards[mark.thread]):
            asked = receives.within(start, end)
            inside = (asked and operations.within(asked[0], end)) or operations.within(start, end)
            if waited:
                sent = process.sends[mark.thread].within(inside[1] if inside else start, end)
                inside = _without_waits(start, sent[0] if sent else end, inside, waited)
            first, last = inside or (end, end)
            here = began.get(mark.thread, [])
            mine = calls[mark.thread][bisect_left(here, start) : bisect_left(here, end)] if here else []
            last = max([last, *(min(call.end, end) for call in mine)])
            yield TimedOp(op, first, last, mark.start, mark.thread, exchanged(mine, first, last, operations.begun))


def _without_waits(
    start: float, end: float, inside: tuple[float, float] | None, waited: list[float]
) -> tuple[float, float]:
    """A part of a mark without the waits at its ends, where a profile tells when each wait ended: then time without
    operations and without a wait is work of the op, such as a loop in Python or in NumPy."""
    ends = waited[bisect_right(waited, start) : bisect_right(waited, end)]
    first, last = inside or (end, end)
    before = bisect_right(ends, first)
    return (
        ends[before - 1] if before else first if ends else start,
        last if ends and ends[-1] > last else end,
    )


def _parts(mark: _Mark, backwards: _Intervals) -> Iterator[tuple[Named, float, float]]:
    """The ops of a mark, each with its part of it; of a pair, the backward begins with autograd's first operation."""
    ops = ops_of(mark.name)
    if len(ops) == 1:
        yield ops[0], mark.start, mark.end
        return
    backward = backwards.within(mark.start, mark.end)
    if backward is None or len(ops) != 2 or {ops[0].kind == "F", ops[1].kind == "F"} != {True, False}:
        raise Unreadable("no-operations-in-pair", pair=mark.name)
    cut = backward[0] if ops[0].kind == "F" else backward[1]
    yield ops[0], mark.start, cut
    yield ops[1], cut, mark.end


def _by_kernels(process: _Process) -> Iterator[TimedOp]:
    """From the first kernel that each op launched to its last; without any, no time, right after the op before."""
    everywhere = _Intervals()  # backwards of all threads, for pairs
    for intervals in process.backwards.values():
        for start, end in zip(intervals.starts, intervals.ends, strict=True):
            everywhere.add(start, end - start)
    everywhere.sort()
    parts = [(*part, mark) for mark in process.marks for part in _parts(mark, everywhere)]
    found: list[list[tuple[float, float]]] = [[] for _ in parts]
    messages: list[list[tuple[float, float]]] = [[] for _ in parts]
    calls: list[list[Call]] = [[] for _ in parts]
    threads: dict[Any, list[int]] = defaultdict(list)
    for number, part in enumerate(parts):
        threads[part[3].thread].append(number)
    if len(threads) * len(process.kernels) > _MOST_LOOKS:
        raise _OverlapError
    starts = {thread: [parts[number][1] for number in numbers] for thread, numbers in threads.items()}
    work = [kernel for kernel in process.kernels if not kernel.message]
    # Where workers play several devices, autograd launches for all of them: then a kernel's stream tells whose it is.
    worker_of = {kernel.stream: by for kernel in work if (by := process.launches[kernel.correlation][1]) in threads}
    for kernel in (kernel for kernel in process.kernels if kernel.single or not kernel.message):
        at, by = process.launches[kernel.correlation]
        within = [
            number
            for thread in ([by] if by in threads else threads)
            if (place := bisect_right(starts[thread], at) - 1) >= 0 and at < parts[number := threads[thread][place]][2]
        ]
        if kernel.message:
            for number in within:
                messages[number].append((kernel.start, kernel.end))
            continue
        if len(within) > 1:
            one, other = (parts[number][3].name for number in within[:2])
            within = [number for number in within if parts[number][3].thread == worker_of.get(kernel.stream)]
            if not within and kernel.sizes is None:
                raise Unreadable("two-ops-at-once", one=one, other=other)
        for number in within:
            found[number].append((kernel.start, kernel.end))
            if kernel.sizes is not None:
                calls[number].append(Call(kernel.start, kernel.end, *kernel.sizes))
    if not any(found):
        raise Unreadable("no-kernels", op=process.marks[0].name)
    before = min(start for inside in found for start, _ in inside)
    computed = _Intervals()
    for start, end in merged((kernel.start, kernel.end) for kernel in work if kernel.sizes is None):
        computed.add(start, end - start)
    for (op, _, _, mark), inside, sent, mine in zip(parts, found, messages, calls, strict=True):
        start, end = _from_its_message(inside, sent) if inside else (before, before)
        yield TimedOp(op, start, end, mark.start, mark.thread, exchanged(mine, start, end, computed.during))
        before = end


def _from_its_message(kernels: list[tuple[float, float]], messages: list[tuple[float, float]]) -> tuple[float, float]:
    """From the first kernel to the last; what comes before a message that is waited for is left out if it is next to
    nothing, such as the filling of its buffer."""
    kernels.sort()
    first, free, before = kernels[0][0], kernels[0][0], 0.0
    most = 0.05 * sum(end - start for start, end in kernels)
    for start, end in kernels:
        if before > most:
            break
        if any(2 * (min(there, start) - max(sent, free)) > start - free > 0 for sent, there in messages):
            first = start
        free, before = max(free, end), before + end - start
    return first, max(end for _, end in kernels)


def _transfers(process: _Process) -> Iterator[TimedTransfer]:
    """The kernels of each message, launched within its mark."""
    marks = sorted(process.transfers, key=lambda mark: mark.start)
    starts = [mark.start for mark in marks]
    found: dict[int, tuple[float, float]] = {}
    for kernel in process.kernels:
        at, _ = process.launches[kernel.correlation]
        number = bisect_right(starts, at) - 1
        if kernel.message and number >= 0 and at <= marks[number].end:
            first, last = found.get(number, (kernel.start, kernel.end))
            found[number] = min(first, kernel.start), max(last, kernel.end)
    for number, (start, end) in sorted(found.items()):
        transfer = transfer_of(marks[number].name)
        if transfer is not None:
            yield TimedTransfer(transfer, start, end, marks[number].start)
