"""A worker that is the first process of a container: when it ends, so does the container with everything in it."""

from __future__ import annotations

from gpipe_edu.process.enclosure import CONTAINER

from . import judge_worker


def main() -> None:
    """As `judge_worker.main`."""
    judge_worker.main(CONTAINER)
