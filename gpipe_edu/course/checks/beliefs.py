"""Naming a misconception: what each belief would have given is held against what came.

Several ways to act on a belief are its variants, so that each is told in one sentence, wherever it shows.
Where a case differs in one thing from others that were right, that one thing is the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from gpipe_edu.course.task import Wrong


class Belief(NamedTuple):
    """slip, because: as in a finding. variants: what somebody who believes it may give."""

    slip: str
    because: str
    variants: tuple[Any, ...]


def belief_with(beliefs: Iterable[Belief], fits: Callable[[Any], bool]) -> Belief | None:
    """The first belief of which some variant fits."""
    return next((belief for belief in beliefs if any(map(fits, belief.variants))), None)


@contextmanager
def told_as(slip: str, because: str) -> Iterator[None]:
    """Whatever is wrong inside has this reason, except that it had to be stopped, which has its own."""
    try:
        yield
    except Wrong as wrong:
        trouble = wrong.finding.trouble
        if trouble is not None and trouble.kind in ("stopped", "printed"):
            raise
        raise Wrong(wrong.finding._replace(slip=slip, because=because)) from None
