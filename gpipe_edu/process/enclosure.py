"""Where untrusted answers run: how a process enters, what has to be shut off there, and what is.

What is *needed* depends on what else runs or lies beside an answer, and is stated here; what is *held* is found out by
the process that has entered, never assumed. An enclosure is one value that a worker passes on to the judge and to the
process of the answer; between processes its name is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from . import cage, namespaces, unprivileged
from .cage import Held


class Enclosure(NamedTuple):
    """enter: gives up this process's rights, as `cage.enter` does. separate: called first by a judge, so that all that
    it starts ends with it; returns whether the kernel guarantees that. needed: what has to be shut off, by its name in
    `Held`.
    """

    name: str
    enter: Callable[[str, float, bool], Held]
    separate: Callable[[], bool]
    needed: tuple[str, ...] = ("files", "signals", "network")

    def missing(self, held: Held, talks: bool = False) -> list[str]:
        """What is needed and still open. talks: the answer's processes use TCP between them, so only a network of its
        own will do.
        """
        network = held.network == "own" or (held.network != "" and not talks)
        shut = {"files": held.files, "signals": held.signals, "network": network}
        return [name for name in self.needed if not shut[name]]


CAGE: Final = Enclosure("cage", cage.enter, namespaces.own_processes)
"""On a teacher's own machine: Landlock."""

CONTAINER: Final = Enclosure("container", unprivileged.enter, lambda: True)
"""In a container for a whole class, which its engine isolates; when its first process ends, all others do."""

SINGLE: Final = Enclosure("single", unprivileged.enter, lambda: False, needed=("signals",))
"""In a container with one student's work and no cage, as Gradescope has it: world-writable files and the network affect
only that student. Judge and marks belong to root, and the answer runs as another user.
"""

ENCLOSURES: Final = {one.name: one for one in (CAGE, CONTAINER, SINGLE)}
