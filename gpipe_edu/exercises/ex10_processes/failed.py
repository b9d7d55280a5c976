"""Signs in a run that did not come to its end: a deadlock, a message that does not fit, or an error of PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpipe_edu.distributed.waits import MessageLog
from gpipe_edu.exercises.case import Sign, Signs
from gpipe_edu.sandbox.findings import Trouble

_REASONS: Final = ("sends", "receives", "waits", "tags", "returned", "unreceived", "unwaited", "dtype", "no-neighbour")
"""Those that the watched processes give and that are slips as they are."""

_ERRORS: Final = (
    ("no-gradient", "implicitly created"),
    ("second-time", "a second time"),
    ("detached", "does not require grad"),
    ("contiguous", "contiguous"),
    ("other-gradient-shape", "Mismatch in shape"),
    ("one-buffer", "modified by an inplace"),
)
"""What a message of PyTorch's contains."""


class Failed(NamedTuple):
    """reason: what the traffic between the processes says. message: all of it, of which `trouble` has the first line.

    diaries: up to then.
    """

    reason: str
    message: str
    trouble: Trouble
    diaries: Sequence[Sequence[dict[str, Any]]]


def about_failure(failed: Failed) -> Signs:
    """If none of them shows, it is an error like others."""
    reason = "unwaited" if failed.reason == "lost" else failed.reason  # which of the two is a matter of luck
    if reason == "size":
        yield from _about_sizes(failed)
    for name in _REASONS:
        yield Sign(name, reason == name, trouble=failed.trouble)
    yield from _about_none(failed)
    for slip, words in _ERRORS:
        yield Sign(slip, words in failed.message, trouble=failed.trouble)


def _about_sizes(failed: Failed) -> Signs:
    for sent, received in MessageLog(failed.diaries).pairs():
        expected, came = f"received as {received.shape}", f"sent {sent.shape}"
        other, same_features = sent.shape != received.shape, sent.shape[1:] == received.shape[1:]
        yield Sign("first-size", other and same_features, expected=expected, came=came, trouble=failed.trouble)
        yield Sign("other-shape", other, expected=expected, came=came, trouble=failed.trouble)


def _about_none(failed: Failed) -> Signs:
    """Where None stood for the `pieces` of a process in the middle, or for a gradient that was to be sent."""
    trouble = failed.trouble
    if "NoneType" not in failed.message or not trouble.where:
        return
    text = trouble.where[-1].text
    yield Sign("no-pieces", "subscriptable" in failed.message and "pieces" in text, trouble=trouble)
    needs = [entry["needs"] for diary in failed.diaries[1:] for entry in diary if entry.get("op") == "F"]
    sent = "send" in text or ".grad" in text
    yield Sign("no-requires-grad", sent and bool(needs) and not any(needs), trouble=trouble)
    yield Sign("no-grad-yet", sent, trouble=trouble)
