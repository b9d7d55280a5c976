"""Exercise 10: the misconception behind a message that was changed on its way, or that went another way."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gpipe_edu.course.task import Blame


def judge_buffers(diaries: Any, wrong: Blame) -> None:
    """Nobody sent from memory that an earlier message may still have been read from."""
    for k, diary in enumerate(diaries):
        flying: dict[int, tuple[int, int]] = {}  # post -> (memory, to whom)
        coming: dict[int, int] = {}  # post -> from whom
        for entry in diary:
            if "send" in entry.get("do", ""):
                if any(entry["memory"] == memory for memory, _ in flying.values()):
                    because = (
                        "A message was changed before it was taken: `isend` reads the memory of its tensor until "
                        "`wait()` comes back. Every message needs memory of its own until then."
                    )
                    raise wrong("one-send-buffer", because, "", f"process {k} filled what it was still sending")
                if prod(entry["shape"]):
                    flying[entry["post"]] = entry["memory"], entry["peer"]
            elif "recv" in entry.get("do", ""):
                coming[entry["post"]] = entry["peer"]
            ended = entry.get("end") if "op" not in entry else None
            flying.pop(entry.get("drop", ended), None)  # let go: judged as such elsewhere
            if ended in coming:  # an answer shows that the question has arrived, if the learner relies on that
                flying = {post: sent for post, sent in flying.items() if sent[1] != coming[ended]}


def judge_messages(diaries: Any, numbers: Sequence[int], wrong: Blame) -> None:
    """Between k and k + 1, at least numbers[k] numbers went each way. For an answer that is right apart from this."""
    for k, needed in enumerate(numbers):
        for source, target, what in ((k, k + 1, "activations"), (k + 1, k, "gradients")):
            posts = [entry for entry in diaries[source] if "send" in entry.get("do", "") and entry["peer"] == target]
            sent = sum(prod(entry["shape"]) for entry in posts)
            if sent < needed:
                because = (
                    "The numbers are right, but they did not come in messages. Processes on two machines share no "
                    "files and no memory: activations and gradients go through `torch.distributed`."
                )
                expected = f"{needed} numbers from process {source} to process {target}, the {what}"
                raise wrong("no-message", because, expected, f"{sent} numbers")
