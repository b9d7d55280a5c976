"""Exchanges of tokens among the ranks that share a layer's experts: all-to-alls, as a profile shows them.

On a CPU the call is an operation, and gloo's annotation tells when it ended. On a GPU they are kernels; Kineto copies
to each what PyTorch recorded of its collective (`record_param_comms`, PyTorch 2.13): NCCL's is the same SendRecv as for
a message between two ranks. DeepEP's kernels have names of their own, and say no sizes.

An exchange that hands out tokens is followed by one that brings as many back; between them this rank's experts work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, Final, NamedTuple

CALLS: Final = "c10d::alltoall"
"""Beginning of the names of operations that exchange, `alltoall_` and `alltoall_base_`."""

ENDS: Final = "gloo:all_to_all"
"""The annotation that ends with an exchange."""

_COLLECTIVE: Final = "all_to_all"
"""Beginning of what record_param_comms calls one: `all_to_all`, or `all_to_allv` if its parts differ."""

_DEEP_EP: Final = re.compile(r"\bdeep_ep::(\w+::)+(\w+_)?(dispatch|combine)(_impl)?\b")
"""Its kernels of 1.2, such as `deep_ep::intranode::dispatch`, and those of its main branch in July 2026."""

_MOST_DIMENSIONS: Final = 8

Interval = tuple[float, float]


class Call(NamedTuple):
    """One exchange of one rank, in microseconds. sent, received: how many numbers, 0 if nothing tells. thread: that
    called for it."""

    start: float
    end: float
    sent: int
    received: int
    thread: Any = None


class Dispatch(NamedTuple):
    """Tokens that went to experts and came back. sent, received: how many numbers went out and in on the way there.
    experts: microseconds from its end to the start of the way back. back: how long that took."""

    sent: int
    received: int
    experts: float
    back: float


class Exchanged(NamedTuple):
    """What an op spent in exchanges, in microseconds. exposed: of it, while this rank computed nothing."""

    time: float
    exposed: float
    dispatches: tuple[Dispatch, ...]


def sizes_of_kernel(name: str, args: Any) -> tuple[int, int] | None:
    """How many numbers an exchange's kernel sent and received, 0 if it does not say; None for any other kernel."""
    told = args if isinstance(args, dict) else {}
    if str(told.get("Collective name", "")).startswith(_COLLECTIVE):
        return _number(told.get("In msg nelems")), _number(told.get("Out msg nelems"))
    return (0, 0) if _DEEP_EP.search(name) else None


def sizes_of_call(args: Any) -> tuple[int, int]:
    """How many numbers an operation that exchanges sent and received, 0 unless the profile recorded shapes."""
    shapes = args.get("Input Dims") if isinstance(args, dict) else None
    if not isinstance(shapes, list) or len(shapes) < 2:
        return 0, 0
    received, sent = map(_numbers_in, shapes[:2])  # c10d's operations take the output first
    return sent, received


def _number(value: Any) -> int:
    return value if isinstance(value, int) and 0 < value < 2**63 else 0


def _numbers_in(shape: Any) -> int:
    """Of a tensor, or of a list of tensors."""
    shapes = shape if isinstance(shape, list) and all(isinstance(one, list) for one in shape) else [shape]
    return sum(prod(map(_number, one)) for one in shapes if isinstance(one, list) and 0 < len(one) <= _MOST_DIMENSIONS)


def with_ends(calls: Iterable[Call], ends: Sequence[Interval]) -> list[Call]:
    """Calls, in their order, each until the end of the annotation that began next; without one, until they returned."""
    found, annotations = [], iter(sorted(ends))
    annotation = next(annotations, None)
    for call in _in_order(calls):
        while annotation and annotation[0] < call.start:
            annotation = next(annotations, None)
        found.append(call._replace(end=max(call.end, annotation[1])) if annotation else call)
        annotation = next(annotations, None)
    return found


def _in_order(calls: Iterable[Call]) -> list[Call]:
    return sorted(calls, key=lambda call: call[:2])


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time without overlaps, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return found


def exchanged(
    calls: Sequence[Call], start: float, end: float, computed: Callable[[float, float], Iterable[Interval]]
) -> Exchanged | None:
    """What an op from start to end spent in these calls, None without any. computed: what its rank computed between
    two times."""
    pieces = merged((max(call.start, start), min(call.end, end)) for call in calls)
    if not pieces:
        return None
    time = sum(until - at for at, until in pieces)
    hidden = sum(
        there - here
        for at, until in pieces
        for here, there in merged((max(one, at), min(other, until)) for one, other in computed(at, until))
    )
    return Exchanged(time, time - hidden, tuple(_dispatches(calls)))


def _dispatches(calls: Iterable[Call]) -> Iterable[Dispatch]:
    """Each that is answered: the next that sends as much as it received, and receives as much as it sent."""
    out: dict[tuple[int, int], Call] = {}
    for call in _in_order(calls):
        to = out.get((call.received, call.sent)) if call.sent else None
        if to is None:
            out[call.sent, call.received] = call
        else:
            yield Dispatch(to.sent, to.received, max(0.0, call.start - to.end), call.end - call.start)
            out.clear()
