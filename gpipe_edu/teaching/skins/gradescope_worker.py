"""A worker in Gradescope's container without bubblewrap: answers run as the user nobody, the judge as root."""

from __future__ import annotations

from gpipe_edu.process.enclosure import SINGLE
from gpipe_edu.teaching.grading import judge_worker


def main() -> None:
    """As `judge_worker.main`."""
    judge_worker.main(SINGLE)
