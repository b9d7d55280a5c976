"""Where answers run that nobody vouches for: how a process gets in, what has to be shut there, and what is.

What is *needed* depends on what stands beside an answer, and is stated here; what is *held* is found out by the process
that has entered, and is never claimed. An enclosure is one value that a worker hands on to the judge and to the process
of the answer, between processes by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from . import cage, namespaces, unprivileged
from .cage import Held


class Enclosure(NamedTuple):
    """enter: gives up this process's rights, as `cage.enter` does. separate: how a judge begins, if all that it starts
    is to end with it; returns whether the system sees to that. needed: what has to be shut, by its name in `Held`.
    """

    name: str
    enter: Callable[[str, float, bool], Held]
    separate: Callable[[], bool]
    needed: tuple[str, ...] = ("files", "signals", "network")

    def missing(self, held: Held, talks: bool = False) -> list[str]:
        """What is needed and stands open. talks: its processes reach each other by TCP, so only a network of its own
        will do.
        """
        network = held.network == "own" or (held.network != "" and not talks)
        shut = {"files": held.files, "signals": held.signals, "network": network}
        return [name for name in self.needed if not shut[name]]


CAGE: Final = Enclosure("cage", cage.enter, namespaces.own_processes)
"""On a teacher's own machine: Landlock."""

CONTAINER: Final = Enclosure("container", unprivileged.enter, lambda: True)
"""In a container for a whole class, whose engine shuts it; with its first process all others end."""

SINGLE: Final = Enclosure("single", unprivileged.enter, lambda: False, needed=("signals",))
"""In a container with one student's work and no cage, as Gradescope has it: files that all may write and the network
are that student's own. Judge and marks are root's, and the answer is not.
"""

ENCLOSURES: Final = {one.name: one for one in (CAGE, CONTAINER, SINGLE)}
