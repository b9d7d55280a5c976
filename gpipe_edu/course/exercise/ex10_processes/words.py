"""Exercise 10: what to say to a deadlock, a message that does not fit, and an error of PyTorch's."""

from __future__ import annotations

from typing import Final

STUCK: Final = {
    "sends": "Two processes wait in a send, each for the other to receive. Under 1F1B there comes a moment when both "
    "have something to send. `isend` does not wait.",
    "receives": "Everybody waits to receive, and nobody has sent. Send what the other one needs before you wait for "
    "what it will send back.",
    "waits": "They wait for each other in a circle: one to receive what the other would send later. Each process has "
    "to send and receive in the order of its row.",
    "tags": "Both sides are there, but under different tags, so the messages pass each other by. The sender's tag must "
    "be the receiver's.",
    "returned": "A process waits for one that has already returned. Both sides must agree on what is sent: from k to "
    "k + 1 an activation for each F, from k + 1 to k a gradient for each B.",
    "unreceived": "A message was sent that nobody receives. Both sides must agree on what is sent: from k to k + 1 an "
    "activation for each F, from k + 1 to k a gradient for each B, and nothing else.",
    "unwaited": "`isend` only begins to send: the message is on its way as long as you hold the handle that it gave "
    "back. Keep all handles, and `wait()` for each of them before the function ends.",
    "dtype": "The buffer has another type than what was sent: `torch.empty` makes float32 unless you say "
    "`dtype=torch.float64`. gloo moves bytes and does not look.",
}
"""By the reason that the traffic between the processes gives."""

ERRORS: Final = [
    (
        "no-gradient",
        "implicitly created",
        "The result of a stage is no single number, so `backward()` needs its gradient: the one that the next process "
        "sends back.",
    ),
    (
        "second-time",
        "a second time",
        "One graph was walked twice. Every micro-batch has a graph of its own: keep input and result under m, not in "
        "one variable that the next forward overwrites.",
    ),
    (
        "detached",
        "does not require grad",
        "Backward was called on a tensor without a graph. What is sent may be detached; what is kept for the backward "
        "must have its graph.",
    ),
    (
        "contiguous",
        "contiguous",
        "A tensor is sent as it lies in memory, so it must be contiguous; a transposed or strided view is not. "
        "`.contiguous()` makes a copy that is.",
    ),
    (
        "other-gradient-shape",
        "Mismatch in shape",
        "A gradient met a result of another shape, so it belongs to another micro-batch. Which one does the row say is "
        "next?",
    ),
    (
        "one-buffer",
        "modified by an inplace",
        "A buffer was filled again while a graph still needed what was in it. Every micro-batch needs a buffer of its "
        "own until its backward.",
    ),
    (
        "no-neighbour",
        "has no neighbour",
        "Process 0 has nobody in front of it, and the last process nobody behind it: "
        "nothing is sent or received there.",
    ),
]
"""(slip, what PyTorch's message contains, because)."""
