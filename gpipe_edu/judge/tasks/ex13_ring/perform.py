"""How `ring_all_reduce` is called: in D processes at once, each with its two neighbours, which note every message."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from gpipe_edu.distributed.rank import this_watch
from gpipe_edu.judge.guest.forms import gather
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.processes import LIMIT, Diaries, copied, run_judged, told_links
from gpipe_edu.process.packing import Forwarded

unpack = Forwarded


class RingQuestion(NamedTuple):
    """gradients: of each device, for each call, D pieces."""

    gradients: list[list[list[Array]]]


class RingAnswer(NamedTuple):
    """sums: of each device, for each call, what it gave back. diaries: each one's notes. failure: why none came."""

    sums: list[Any]
    diaries: Diaries
    failure: tuple[Any, ...] | None = None


def perform(ring_all_reduce: Any, **given: Any) -> RingAnswer:
    """The answer to a `RingQuestion`."""

    asked = RingQuestion(**given)
    calls = [partial(reduce_in_process, ring_all_reduce, rank, own) for rank, own in enumerate(asked.gradients)]
    return RingAnswer(*run_judged(calls, LIMIT))


def reduce_in_process(ring_all_reduce: Any, rank: int, gradients: list[list[Array]]) -> list[Any]:
    """What process `rank` gives for each of its gradients, one call after the other."""
    D, answers = len(gradients[0]), []
    for pieces in gradients:
        watch = this_watch()
        watch.step()
        with told_links(rank, D) as (send, receive):
            answers.append(gather(ring_all_reduce(rank, D, pieces, send, receive)))
    return [copied(answer) for answer in answers]
