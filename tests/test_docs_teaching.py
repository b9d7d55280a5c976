"""The plans for a course say how long they take, from the minutes that lessons and exercises state."""

import re
from pathlib import Path

from gpipe_edu.course.lessons import LESSONS, THREAD
from tests.each import each

from .notebooks.test_standard import LESSONS as PATHS
from .notebooks.test_standard import read

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/teaching.md").read_text(encoding="utf-8")
PLANS = dict(re.findall(r"^\*\*(\w+ weeks, [^*]*) hours\.\*\*\n\n((?:\|.*\n)+)", PAGE, flags=re.MULTILINE))
PROBLEMS = 15
"""Minutes for the three at a lesson's end."""
LESSON = {path.stem[:2]: int(re.search(r"\*\*Time\*\* (\d+)", read(path).cells[0].source)[1]) for path in PATHS}
EXERCISE = {
    path.stem[9:11]: int(re.search(r"\*\*Time\*\* (\d+) minutes", path.read_text(encoding="utf-8"))[1])
    for path in (ROOT / "solutions").glob("exercise_*.py")
}


def rows(plan):
    """(lessons, exercises, hours) of each week."""
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in PLANS[plan].splitlines()[2:]]
    return [(re.findall(r"\d\d", a), re.findall(r"\d\d", b), float(hours)) for _, a, b, hours, _ in cells]


def worked_out(lessons, exercises):
    return (sum(LESSON[one] + PROBLEMS for one in lessons) + sum(EXERCISE[one] for one in exercises)) / 60


def test_there_are_plans_of_four_eight_and_fifteen_weeks():
    assert [len(rows(plan)) for plan in PLANS] == [4, 8, 15]


@each("plan", PLANS)
def test_the_hours_of_a_plan_are_those_of_its_lessons_problems_and_exercises(plan):
    for lessons, exercises, hours in rows(plan):
        assert abs(worked_out(lessons, exercises) - hours) <= 0.25, (lessons, exercises)
    whole = sum(worked_out(lessons, exercises) for lessons, exercises, _ in rows(plan))
    assert abs(whole - int(re.search(r"about (\d+)", plan)[1])) <= 0.5, whole


@each("plan", PLANS)
def test_a_plan_follows_the_thread_and_has_no_exercise_twice(plan):
    taken = [one for lessons, _, _ in rows(plan) for one in lessons]
    thread = [one for one in taken if one in THREAD]
    assert thread == sorted(thread, key=THREAD.index)
    written = [one for _, exercises, _ in rows(plan) for one in exercises]
    assert len(set(written)) == len(written)


def test_the_longest_plan_has_every_lesson():
    assert sorted(one for lessons, _, _ in rows(list(PLANS)[-1]) for one in lessons) == [one.number for one in LESSONS]
