"""What a person decides about marks holds through every run, and is told."""

import pytest

from gpipe_edu.process import bubblewrap
from gpipe_edu.teaching.grading import by_hand
from gpipe_edu.teaching.grading.marks import Mark

from .classroom import CLOCK, LOOP, answered, hand_in, run, states, table

pytestmark = pytest.mark.slow

KEY, BOOK = "ex02/clock", "exercise_02_clock.ipynb"


def write(path, *lines):
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@pytest.mark.skipif(not bubblewrap.installed(), reason="answers are graded in bubblewrap: apt install bubblewrap")
def test_a_mark_set_by_hand_holds_and_points_are_those_of_the_file(tmp_path):
    for name, text in (("ada", CLOCK), ("bob", LOOP)):
        hand_in(tmp_path / "in" / name / BOOK, answered({KEY: text}))
    out, points = tmp_path / "out", write(tmp_path / "points.csv", "task,points", f"{KEY},10")
    out.mkdir()
    write(out / by_hand.OVERRIDE, "student,task,points,why", f"bob,{KEY},4.5,told in the oral")
    for _ in range(2):
        run(tmp_path / "in", "--out", out, "--tasks", KEY, "--points", points)
        assert states(out) == {("ada", KEY): ("passed", "10"), ("bob", KEY): ("wrong", "4.5")}
        row = next(row for row in table(out / "marks.csv") if row["student"] == "bob")
        assert (row["total"], row["of"]) == ("4.5", "10")
        assert "set by hand to 4.5 points, from 0: told in the oral" in row["look at it"]
    assert "set by hand to 4.5 points, from 0: told in the oral" in (out / "feedback" / "bob.html").read_text("utf-8")
    write(out / by_hand.OVERRIDE, "student,task,points", f"bo,{KEY},4.5")
    assert "names the student 'bo', who is not among the hand-ins" in run(tmp_path / "in", "--out", out, ends=2)


def test_a_mark_that_could_not_be_judged_may_be_set():
    found = by_hand.override("ada", Mark(KEY, "not judged", None, notes=("late",)), {("ada", KEY): (2.0, "")})
    assert (found.points, found.notes) == (2.0, ("set by hand to 2 points, from none", "late"))
    assert by_hand.override("bob", found, {}) is found


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["student,task", f"ada,{KEY}"], "has no column points"),
        (["student,task,points", f"ada,{KEY},-1"], "line 2, has the points '-1'; they must be a number from 0 on"),
        (["student,task,points", f"ada,{KEY},nan"], "must be a number"),
        (["student,task,points", f"ada,{KEY},1", "ada,ex99/none,1"], "line 3, names the task 'ex99/none'; there are"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_line(tmp_path, lines, told):
    write(tmp_path / by_hand.OVERRIDE, *lines)
    with pytest.raises(ValueError, match=told):
        by_hand.read_overrides(tmp_path, ["ada"], [KEY])


def test_the_most_that_a_wrong_answer_can_earn_is_a_percentage_up_to_half(tmp_path):
    file = tmp_path / "points.csv"
    assert by_hand.read_partial(write(file, "task,points,partial", f"{KEY},3,50%", "ex02/clock,,25")) == {
        KEY: 0.5,
        "ex02/clock": 0.25,
    }
    assert by_hand.read_partial(write(file, "task,points", f"{KEY},3")) == {KEY: 0}
    for text in ("51%", "-1", "nan", "half", "0.5"):
        with pytest.raises(
            ValueError, match=f"line 2, has partial '{text}'; it is a percentage of the points, 0 or 1% to 50%"
        ):
            by_hand.read_partial(write(file, "task,partial", f"{KEY},{text}"))


@pytest.mark.parametrize(
    ("line", "told"), [("ex99/none,1", "names the task 'ex99/none'"), (f"{KEY},2.5", "whole number")]
)
def test_points_are_whole_numbers_of_tasks(tmp_path, line, told):
    with pytest.raises(ValueError, match=told):
        by_hand.read_points(write(tmp_path / "points.csv", "task,points", line), [KEY])
