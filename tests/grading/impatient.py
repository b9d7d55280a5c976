"""`python -m tests.grading.impatient grade ...`: an endless answer without PyTorch is told so after a second."""

import sys

from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.teaching.grading import judge_worker, judges
from tests.processes import ROOT
from tests.solutions.judged import SOON


def hurry():
    """In this process."""
    exercises = all_exercises()
    exercises.update((key, one._replace(seconds=SOON)) for key, one in exercises.items() if not one.needs_torch)


def work():
    """What a judge's process does."""
    hurry()
    judge_worker.main()


if __name__ == "__main__":
    from gpipe_edu.cli import main

    hurry()
    code = f"import sys; sys.path.append({ROOT!r}); from {__spec__.name} import work; work()"
    judges.command = lambda module: [sys.executable, "-P", "-E", "-u", "-c", code]
    main()
