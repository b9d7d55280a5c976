"""What the checks of exercises with several processes share: how a run that did not finish is judged, and what is seen
in a ring.

The judge is told each message of a ring. So it knows what went round, in which sums it was and how often, and whether
a process could know what it gave back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from gpipe_edu.base.words import plural
from gpipe_edu.distributed.deadlocks import MessageLog, Post
from gpipe_edu.distributed.diary import Entry
from gpipe_edu.judge.case import Case, Sign, Signs
from gpipe_edu.judge.findings import GROWS, Trouble
from gpipe_edu.judge.guest.forms import describe
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.processes import Diaries, Failure


def judge_failure(case: Case, failure: Failure, about: Callable[[Trouble], Signs]) -> NoReturn:
    """Raise Wrong, Unwritten. about: what the exercise itself knows of such an error; else it is one like any other."""
    where = case.exam.lines(failure.lines)
    trouble = Trouble(failure.kind, failure.message.partition("\n")[0], where)
    case.judge(about(trouble))
    if failure.reason == "late":
        grew = case.exam.replies[-1][0].grew
        trouble = Trouble("stopped", GROWS if grew else "", where, seconds=failure.seconds)
    if failure.reason in ("died", "exit"):
        trouble = Trouble("exit", failure.message, where)
    case.fail(trouble)


def about_collectives(diaries: Diaries) -> Signs:
    """One of PyTorch's collectives did the work."""
    for k, diary in enumerate(diaries):
        for entry in diary:
            yield Sign("collective", "collective" in entry, came=f"dist.{entry.get('collective')} on device {k}")


def about_ring_failure(failure: Failure, trouble: Trouble, diaries: Diaries, lengths: Sequence[int]) -> Signs:
    """Why a ring did not finish. lengths: of the pieces."""
    yield from about_collectives(diaries)
    log = MessageLog(diaries)
    if failure.reason in ("size", "dtype"):
        sent, received = next(pair for pair in log.pairs() if _form(pair[0]) != _form(pair[1]))
        forms = [f"{plural(post.size, 'number')} of {post.dtype}" for post in (sent, received)]
        expected, came = "one piece of float64, sent and received", "sent {}, received as {}".format(*forms)
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
    if shapes and not any(shapes):  # an array came, as a list of its numbers
        came = f"{plural(len(shapes), 'number')}, in one array or list"
    yield Sign("not-pieces", shapes is None or len(shapes) != len(lengths), expected=expected, came=came)
    wanted = [(length,) for length in lengths]
    yield Sign("other-lengths", shapes != wanted, expected=f"shapes {wanted}", came=f"{shapes}")


FEW: Final = 50
"""An array of so many numbers or fewer may be a sum of several others by chance."""


class Message(NamedTuple):
    """What device k has sent in one of its calls, or received."""

    k: int
    call: int
    sent: bool
    array: Array


class Told:
    """Answers (device, question): the beginning of a call, and each message, in the order of time."""

    def __init__(self, D: int) -> None:
        self._calls = [-1] * D
        self.messages: list[Message] = []

    def __call__(self, question: Any) -> None:
        """Note it. Raises ValueError for anything else."""
        k, (kind, *rest) = question
        if kind == "step":
            self._calls[k] += 1
        elif kind in ("sent", "received"):
            self.messages.append(Message(k, self._calls[k], kind == "sent", np.asarray(rest[0], dtype=float)))
        else:
            raise ValueError(f"{kind!r} is no question")

    def sent(self, k: int, call: int) -> list[Array]:
        """What device k has sent in a call."""
        return [m.array for m in self.messages if m[:3] == (k, call, True)]

    @property
    def sizes(self) -> list[list[list[int]]]:
        """How many numbers each message had that was sent, by device and call."""
        return [
            [[array.size for array in self.sent(k, call)] for call in range(last + 1)]
            for k, last in enumerate(self._calls)
        ]

    def arrived(self) -> bool:
        """Whether each device has received what its left neighbour had sent, in its order."""
        D = len(self._calls)
        sent, received = (
            [[m.array for m in self.messages if (m.k, m.sent) == (k, way)] for k in range(D)] for way in (True, False)
        )
        pairs = [(sent[k - 1], received[k]) for k in range(D)]
        return all(len(a) == len(b) and all(map(np.array_equal, a, b)) for a, b in pairs)

    def known(self, k: int, call: int, own: Sequence[Array]) -> Known:
        """What device k could know in a call that it begins with its `own` arrays."""
        return Known(own, [message for message in self.messages if (message.k, message.call) == (k, call)])


class Known:
    """The arrays that a device has, and what can be computed from them by adding and multiplying by numbers.

    A device that has any other array was told it in another way. That shows only if an array has more numbers than
    there are arrays.
    """

    def __init__(self, own: Sequence[Array], messages: Sequence[Message]) -> None:
        self._arrays, self._messages = list(own), list(messages)

    def sends_only_what_it_has(self, then: Sequence[tuple[Array, Array]] = ()) -> bool:
        """Go through its messages. then: pairs of an array and what it has as soon as it can have the first."""
        return all(self._goes_on(message, then) for message in self._messages)

    def _goes_on(self, message: Message, then: Sequence[tuple[Array, Array]]) -> bool:
        self._arrays += [more for needed, more in then if self.has(needed) and not self.has(more)]
        if not message.sent:
            self._arrays.append(message.array)
        return self.has(message.array)

    def has(self, array: Array) -> bool:
        """Whether `array` is a sum of multiples of those that it has."""
        alike = [one for one in self._arrays if one.shape == array.shape]
        return bool(alike) and shares_in(array, alike) is not None


def shares_in(value: Any, gradients: Sequence[Array]) -> Array | None:
    """How often the piece of each device is in `value`; None if something else is in it, too."""
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return None
    if found.shape != gradients[0].shape or not np.isfinite(found).all():
        return None
    columns = np.transpose(gradients)
    shares = np.linalg.lstsq(columns, found, rcond=None)[0]
    return shares if np.allclose(columns @ shares, found, rtol=0, atol=1e-6) else None


def is_mixed(value: Any, pieces: Sequence[Array]) -> bool:
    """Whether `value` mixes in pieces with other numbers; False if the pieces are too short to tell."""
    alike = [piece for piece in pieces if np.shape(piece) == np.shape(value)]
    return len(alike) < np.size(value) and shares_in(value, alike) is not None


def is_all(shares: Array | None, value: float) -> bool:
    """Whether each device's share is `value`."""
    return shares is not None and bool(np.allclose(shares, value, rtol=0, atol=1e-6))


def shares_in_words(shares: Array | None) -> str:
    """What is in a piece, by device."""
    if shares is None:
        return "something that is no sum of the devices' pieces"
    return "the devices' pieces times " + ", ".join(f"{share:.3g}" for share in np.round(shares, 6) + 0.0)
