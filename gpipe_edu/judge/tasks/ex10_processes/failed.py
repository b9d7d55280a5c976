"""Signs in a run that did not come to its end: a deadlock, a message that does not fit, or an error of PyTorch's."""

from __future__ import annotations

from typing import Final

from gpipe_edu.distributed.deadlocks import MessageLog
from gpipe_edu.judge.case import Sign, Signs
from gpipe_edu.judge.findings import Trouble
from gpipe_edu.judge.guest.processes import Diaries, Failure

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


def about_failure(failure: Failure, trouble: Trouble, diaries: Diaries) -> Signs:
    """If none of them shows, it is an error like others. diaries: up to then."""
    reason = "unwaited" if failure.reason == "lost" else failure.reason  # which of the two is a matter of luck
    if reason == "size":
        yield from _about_sizes(trouble, diaries)
    for name in _REASONS:
        yield Sign(name, reason == name, trouble=trouble)
    yield from _about_none(failure.message, trouble, diaries)
    for sent, received in MessageLog(diaries).pairs():  # which raises no error by itself, but what computes with it may
        expected, came = f"received as {received.shape}", f"sent {sent.shape}"
        larger = sent.shape[1:] == received.shape[1:] and sent.shape[:1] < received.shape[:1]
        yield Sign("first-size", larger, expected=expected, came=came, trouble=trouble)
    for slip, words in _ERRORS:
        yield Sign(slip, words in failure.message, trouble=trouble)


def _about_sizes(trouble: Trouble, diaries: Diaries) -> Signs:
    for sent, received in MessageLog(diaries).pairs():
        expected, came = f"received as {received.shape}", f"sent {sent.shape}"
        other, same_features = sent.shape != received.shape, sent.shape[1:] == received.shape[1:]
        goes_back = sent.rank > received.rank
        yield Sign(
            "gradient-size", other and same_features and goes_back, expected=expected, came=came, trouble=trouble
        )
        yield Sign("first-size", other and same_features, expected=expected, came=came, trouble=trouble)
        yield Sign("other-shape", other, expected=expected, came=came, trouble=trouble)


def _about_none(message: str, trouble: Trouble, diaries: Diaries) -> Signs:
    """Where None stood for the `pieces` of a process in the middle, or for a gradient that was to be sent."""
    if "NoneType" not in message or not trouble.where:
        return
    text = trouble.where[-1].text
    yield Sign("no-pieces", "subscriptable" in message and "pieces" in text, trouble=trouble)
    needs = [entry["needs"] for diary in diaries[1:] for entry in diary if entry.get("op") == "F"]
    sent = "send" in text or ".grad" in text
    yield Sign("no-requires-grad", sent and bool(needs) and not any(needs), trouble=trouble)
    yield Sign("no-grad-yet", sent, trouble=trouble)
