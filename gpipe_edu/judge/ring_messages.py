"""What both tasks of the exercise see in processes of a ring: why they stopped, and what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpipe_edu.base.words import plural
from gpipe_edu.distributed.deadlocks import MessageLog, Post
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.findings import Trouble
from gpipe_edu.judge.guest.forms import describe
from gpipe_edu.judge.guest.processes import Diaries, Failure

from .ring_told import Told


def about_collectives(diaries: Diaries) -> Signs:
    """PyTorch did it."""
    for k, diary in enumerate(diaries):
        for entry in diary:
            yield Sign("collective", "collective" in entry, came=f"dist.{entry.get('collective')} on device {k}")


def about_failure(failure: Failure, trouble: Trouble, diaries: Diaries, lengths: Sequence[int]) -> Signs:
    """Why a ring did not come to its end. lengths: of the pieces."""
    yield from about_collectives(diaries)
    log = MessageLog(diaries)
    if failure.reason in ("size", "dtype"):
        sent, received = next(pair for pair in log.pairs() if _form(pair[0]) != _form(pair[1]))
        numbers = f"{plural(received.size, 'number')} of {received.dtype}"
        expected, came = f"received as {numbers}", f"sent {plural(sent.size, 'number')} of {sent.dtype}"
        whole = sent.size == sum(lengths) and len(lengths) > 1
        yield Sign("whole-gradient", whole, expected=expected, came=came, trouble=trouble)
        yield Sign("dtype", failure.reason == "dtype", expected=expected, came=came, trouble=trouble)
        yield Sign("other-size", expected=expected, came=came, trouble=trouble)
    waits = [post for post in log.waiting if post is not None]
    stuck = failure.reason in ("sends", "receives", "waits", "returned")
    receives = [post for post in waits if not post.sends]
    first = all(post.number == 0 for post in receives) and len(receives) == len(diaries)
    yield Sign("receives-first", stuck and first, trouble=trouble)
    yield Sign("too-few-sends", stuck and bool(receives), trouble=trouble)
    yield Sign("unreceived", stuck or failure.reason == "unreceived", trouble=trouble)


def _form(post: Post) -> tuple[str, int]:
    return post.dtype, post.size


def _sends(entry: Entry) -> bool:
    return "send" in entry.get("do", "")


def about_messages(diaries: Diaries, told: Told, lengths: Sequence[int]) -> Signs:
    """Each device sent 2 (D - 1) pieces in each call. For a run whose result is right."""
    D, P = len(lengths), sum(lengths)
    for entry, k in ((entry, k) for k, diary in enumerate(diaries) for entry in diary if _sends(entry)):
        other = entry["peer"] != (k + 1) % D
        yield Sign("other-neighbour", other, came=f"a message from device {k} to device {entry['peer']}")
    for k, calls in enumerate(told.sizes):
        for sent in calls:
            most = 2 * (P - min(lengths)) if D > 1 else 0
            expected = f"{plural(2 * (D - 1), 'message')} from each device, at most {most} numbers in all"
            came = f"{plural(len(sent), 'message')} of {sum(sent)} numbers from device {k}"
            yield Sign("whole-gradient", P in sent and D > 1, expected=expected, came=came)
            yield Sign("too-much", len(sent) > 2 * (D - 1) or sum(sent) > most, expected=expected, came=came)
    for of_call in zip(*told.sizes, strict=True):
        total = sum(sum(sent) for sent in of_call)
        expected, came = f"{2 * (D - 1) * P} numbers from all devices", f"{total}"
        # Of two devices each is the other's left and right neighbour, so it can't be told yet who was meant.
        yield Sign("no-message", total < 2 * (D - 1) * P and D > 2, expected=expected, came=came)
    yield Sign("no-message", not told.arrived(), expected="what the left neighbour sent", came="other numbers")


def about_pieces(found: Any, k: int, lengths: Sequence[int]) -> Signs:
    """Device k gave back D arrays of these lengths."""
    yield Sign("no-return", found is None, came=f"None from device {k}")
    shapes = [np.shape(one) for one in found] if isinstance(found, list) else None
    expected, came = f"{len(lengths)} arrays from device {k}", f"a list of {len(shapes)}" if shapes else describe(found)
    if shapes and not any(shapes):  # an array has come as the list of its numbers
        came = f"{plural(len(shapes), 'number')}, in one array or list"
    yield Sign("not-pieces", shapes is None or len(shapes) != len(lengths), expected=expected, came=came)
    wanted = [(length,) for length in lengths]
    yield Sign("other-lengths", shapes != wanted, expected=f"shapes {wanted}", came=f"{shapes}")
