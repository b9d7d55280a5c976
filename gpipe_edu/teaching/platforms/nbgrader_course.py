"""A course for nbgrader: our masters as its sources, and a configuration in which our judge grades.

Files changed by a teacher are left alone. Nothing here needs nbgrader.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from gpipe_edu.course.building.build import Built, build_one, masters
from gpipe_edu.course.building.places import ROOT
from gpipe_edu.judge.exercise import find_exercise

CONFIG: Final = "nbgrader_config.py"

_SETTINGS: Final = """\
# nbgrader's settings. Its `autograde` runs no learner's cell here: the judge of gpipe_edu gives the marks.

from gpipe_edu.teaching.platforms.nbgrader_judge import Judge, Reader, Restored
from nbgrader.preprocessors import AssignLatePenalties

c = get_config()

c.CourseDirectory.course_id = "gpipe_edu"
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}

c.Autograde.exporter_class = Reader
c.Autograde.sanitize_preprocessors = []
c.Autograde.autograde_preprocessors = [Restored, Judge, AssignLatePenalties]

# How often each answer is judged, the worst verdict counts; and how many answers at once.
c.Judge.seeds = 1
c.Judge.jobs = 2
"""


class Written(NamedTuple):
    """A course. sources: what was done to each exercise. kept: whether there was a configuration already."""

    sources: list[Built]
    kept: bool


def write(course: Path, tasks: Iterable[str], root: Path = ROOT) -> Written:
    """Write the exercises of these tasks, each as an assignment of its own, and the configuration.

    Raises FileNotFoundError outside of the repository, where there are no masters.
    """
    wanted = {find_exercise(key).notebook for key in tasks}
    sources = []
    for master in masters(root):
        if master.stem in wanted:
            folder = course / "source" / master.stem
            folder.mkdir(parents=True, exist_ok=True)
            sources.append(build_one(master, folder, marked=True))
    config = course / CONFIG
    kept = config.exists()
    if not kept:
        config.write_text(_SETTINGS, encoding="utf-8")
    return Written(sources, kept)
