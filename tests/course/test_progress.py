"""Progress over lessons, predictions, challenges, puzzles and exercises, and where it says to go on."""

from itertools import pairwise
from pathlib import Path

import pytest

from gpipe_edu.base import store
from gpipe_edu.course import attempt, challenge, predict, progress
from gpipe_edu.course.lessons import LESSONS, THREAD
from gpipe_edu.course.predictions import question
from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.puzzles import SolvedLevels

from ..puzzles.solutions import solved as solved_level

ROOT = Path(__file__).resolve().parents[2]


def answer(lesson, right=True):
    for key in question.keys(lesson):
        asked = question.find(key).shuffle()
        wrong = next((letter for letter in "ABCD" if letter != asked.solution()), None)
        predict(key, asked.solution() if right else wrong)


def finish(lesson):
    with store.change("predictions") as kept:
        for asked in map(question.find, question.keys(lesson)):
            kept[asked.key] = asked.answer
    with store.change("challenges") as kept:
        kept.update(dict.fromkeys(challenge.challenges(f"{lesson}/"), "solved"))


def test_the_lessons_are_those_in_the_folder():
    there = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert [one.notebook for one in LESSONS] == there


def test_who_has_done_nothing_begins_with_the_first_lesson():
    found = progress()
    assert (found.solved, found.puzzles, found.here.lesson.number) == (0, 0, "00")
    assert "Begin here: [00 Start here](../notebooks/00_start_here.ipynb)" in found._repr_markdown_()
    assert "Continue here: notebooks/00_start_here.ipynb" in str(found)
    assert str(found).endswith(f"\nKept in {store.path()}")


def test_one_goes_on_in_the_last_lesson_begun_and_behind_it_once_it_is_done():
    answer("04")
    assert progress().here.lesson.number == "05"
    predict("14/tied", question.find("14/tied").shuffle().solution())
    found = progress()
    assert found.here.lesson.number == "14"
    assert "Continue here: [14 Pipelines among other ways](../notebooks/14_pipelines" in found._repr_markdown_()
    assert f"1 of {len(question.keys('14'))} predictions made, 1 right" in str(found)


def test_the_thread_comes_first_and_then_the_side_rooms():
    finish("07")
    assert progress().here.lesson.number == "00", "a side room says nothing about the thread"
    for number, following in pairwise([*THREAD, "10"]):
        finish(number)
        if following in ("07", "09", "14", "08", "12", "10"):
            assert progress().here.lesson.number == following


def test_an_answer_given_where_a_question_stood_before_counts_where_it_stands_now():
    with store.change("predictions") as kept:
        kept["11/three-formulas"] = "C"
    assert "03/three-formulas" not in progress("03").state.open


def test_a_lesson_is_done_when_its_challenges_are_solved_too():
    answer("02")
    assert progress().here.lesson.number == "02"
    attempt("02/cut", (1, 5, 3))
    attempt("02/pieces", ([4, 4, 3, 3], [size / 14 for size in (4, 4, 3, 3)]))
    assert progress().here.lesson.number == "02"
    attempt("02/sends-little", (2, 4, 2))
    assert progress().here.lesson.number == "03"
    assert "3 of 6 challenges solved" in str(progress())


def test_a_lesson_is_done_without_what_stands_in_its_appendix():
    answer("04")
    with store.change("predictions") as kept:
        assert kept.pop("04/noise")
    assert progress().here.lesson.number == "05"
    assert str(progress("04")).startswith(
        "**8 of 9 predictions right.** If you want more: `04/noise`, `04/last-weight`"
    )
    with store.change("predictions") as kept:
        assert kept.pop("04/labels")
    assert progress().here.lesson.number == "04"
    assert "Still open: `04/labels`. If you want more" in str(progress("04"))
    answer("05")
    assert progress().here.lesson.number == "05", "two lines are to be typed"
    attempt("05/two-peaks", [lambda N, L, K, M: N + L / K * N, lambda N, L, K, M: N + L / K * N / M])
    assert progress().here.lesson.number == "06"
    assert "If you want more: `05/recompute-few`, " in str(progress("05"))


def test_exercises_and_puzzles_are_counted():
    with store.change("exercises") as kept:
        kept["ex01/splitting"] = {"tries": 2, "hints": 1, "passed": "2026-01-31"}
    SolvedLevels().record(solved_level("first-dependency"))
    found = progress()
    assert (found.solved, found.puzzles, found.following.key) == (1, 1, "ex02/clock")
    assert f"Exercises: 1 of {len(all_exercises())} solved" in str(found)
    assert "2 tries, 1 hint, solved 2026-01-31" in str(found)
    assert "[ex01/splitting](../exercises/exercise_01_splitting.ipynb)" in found._repr_markdown_()


def test_the_recap_of_a_lesson_counts_and_names_what_to_look_at_again():
    answer("03")
    assert str(progress("03")).startswith("**9 of 9 predictions right.** Not solved yet: `03/by-hand`, `03/lean`.")
    asked = question.find("01/double").shuffle()
    predict("01/double", next(letter for letter in "ABC" if letter != asked.solution()))
    said = repr(progress("01"))
    assert said.startswith("0 of 12 predictions right. Look again at 01/double:")
    assert "Still open: 01/real-bill, 01/largest-part" in said


def test_a_lesson_that_does_not_exist_is_told():
    with pytest.raises(ValueError, match="there is no lesson '3'; there are 00, 01"):
        progress("3")
