"""A worker in Gradescope's container where there is no cage: answers run as nobody there, the judge as root.

The container holds one student's work, so what it does not shut is that student's own: files that all may read, and the
network. What has to be out of an answer's reach are the judge and the marks, which are root's.
"""

from __future__ import annotations

from gpipe_edu.grading import judge_worker
from gpipe_edu.process import cage, unprivileged


def main() -> None:
    """As `judge_worker.main`."""
    cage.enter, cage.apart = _enter, lambda: False
    judge_worker.main()


def _enter(scratch: str, cpu_seconds: float, talks: bool = False) -> cage.Held:
    """What is held against the judge; the rest is nobody else's. Raises OSError if this is not root."""
    return unprivileged.enter(scratch, cpu_seconds, talks)._replace(files=True, network="own", processes=False)
