"""What runs in each of the processes of a ring: the learner's function, between its two neighbours."""

from __future__ import annotations

from typing import Any

from gpipe_edu.distributed.rank import this_watch
from gpipe_edu.judge.guest.forms import gather
from gpipe_edu.judge.guest.networks import Array
from gpipe_edu.judge.guest.told_links import copied, told_links


def reduce_in_process(ring_all_reduce: Any, rank: int, gradients: list[list[Array]]) -> list[Any]:
    """What process `rank` gives for each of its gradients, one call after the other."""
    D, answers = len(gradients[0]), []
    for pieces in gradients:
        watch = this_watch()
        watch.step()
        with told_links(rank, D) as (send, receive):
            answers.append(gather(ring_all_reduce(rank, D, pieces, send, receive)))
    return [copied(answer) for answer in answers]
