"""What makes a package a course: predictions before a surprise, checked exercises, what a learner has done.

`check.py` packs a function and shows what the judge (`judge/judging.py`) found; `report.py` puts it in words, and
`tries_and_hints.py` adds the hints that honest tries have earned. `predictions/` asks before it shows, `challenge.py`
takes a schedule, a cut or a number that the learner types, or a function, which `typed_functions.py` calls;
`progress.py` counts all of it in the one file that `store.py` keeps. `notebook/` has what is special to a notebook;
`building/` makes exercises from their masters and a learner's copy of the course.
"""

from .challenge import attempt, solves
from .check import NotYet, check
from .environment import look
from .lab_report import LabReport
from .notebook.first_errors import tell_plainly
from .notebook.long_work import counting, track
from .notebook.short_lived import warn_of_deletion
from .notebook.timing_claims import on_your_machine
from .predictions.predict import forget, predict
from .progress import progress
from .tries_and_hints import hint, reset, solution

__all__ = [
    "LabReport",
    "NotYet",
    "attempt",
    "check",
    "counting",
    "forget",
    "hint",
    "look",
    "on_your_machine",
    "predict",
    "progress",
    "reset",
    "solution",
    "solves",
    "track",
]

tell_plainly()
warn_of_deletion()
