"""Where untrusted answers run: what an answer's process does first there, what has to be shut off, and what is.

What is *needed* depends on what else runs or lies beside an answer, and is stated here; what is *held* is found out by
the process that has entered, never assumed. An enclosure is one value that a worker passes on to the judge and to the
process of the answer; between processes its name is passed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NamedTuple

from . import bubblewrap, unprivileged
from .probes import Confinement, probe
from .resource_limits import limit_use


def _look_around(scratch: str, cpu_seconds: float, outside: str) -> Confinement:
    os.chdir(scratch)
    limit_use(cpu_seconds)
    return probe(scratch, outside)


class Enclosure(NamedTuple):
    """enter: what an answer's process does first: `enter(scratch, cpu_seconds, outside)` sets its limits, and says what
    is shut off from it. scratch: the only folder to write to, "" for one that the judge makes. outside: one that an
    answer may not see. needed: what has to be shut off, by its name in `Confinement`.
    """

    name: str
    enter: Callable[[str, float, str], Confinement]
    scratch: str = ""
    needed: tuple[str, ...] = Confinement._fields

    def missing(self, held: Confinement) -> list[str]:
        """What is needed and still open."""
        return [name for name in self.needed if not getattr(held, name)]


SANDBOX: Final = Enclosure("sandbox", _look_around, bubblewrap.SCRATCH)
"""On a teacher's own machine: bubblewrap, in which the process has been started."""

CONTAINER: Final = Enclosure("container", unprivileged.enter)
"""In a container for a whole class, which its engine isolates; when its first process ends, all others do."""

SINGLE: Final = Enclosure("single", unprivileged.enter, needed=("processes",))
"""In a container with one student's work and no sandbox, as Gradescope has it: world-writable files and the network
affect only that student. Judge and marks belong to root, and the answer runs as another user.
"""

ENCLOSURES: Final = {one.name: one for one in (SANDBOX, CONTAINER, SINGLE)}
