"""An error in one answer that another builds on costs once: the other is judged with ours in its place, and told so."""

import json

import pytest

from gpipe_edu.course import cut_answer as cutting
from gpipe_edu.course.building import places
from gpipe_edu.course.cut_answer import cut_answer
from gpipe_edu.course.submitted_notebook import cell
from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.judge.guest.statements import make

from .classroom import CLOCK, SEVEN, answered, hand_in, needs_sandbox, run, states, table

CLOCK_KEY, ROWS_KEY, BOOK = "ex02/clock", "ex02/f-then-b", "exercise_02_clock.ipynb"

ON_CLOCK = """def f_then_b(K, M):
    order = [pair for tick in clock(K, M) for pair in tick]
    rows = [[ge.Op("F", m, k) for m, stage in order if stage == k] for k in range(K)]
    return [row + [ge.Op("B", m, k) for m in reversed(range(M))] for k, row in enumerate(rows)]"""
ALONE = 'def f_then_b(K, M):\n    return [[ge.Op(c, m, k) for c in "FB" for m in range(M)] for k in range(K)]'
NOT_ALL = ON_CLOCK.replace("reversed(range(M))", "range(M - 1)")

STUDENTS = {  # the answers to both tasks, and the states that they get
    "right": (CLOCK, ON_CLOCK, "passed", "passed"),
    "first wrong": (SEVEN, ON_CLOCK, "wrong", "passed"),
    "first missing": ("", ON_CLOCK, "missing", "passed"),
    "both wrong": (SEVEN, NOT_ALL, "wrong", "wrong"),
    "second wrong": (CLOCK, NOT_ALL, "passed", "wrong"),
    "second alone": (SEVEN, ALONE, "wrong", "passed"),
}
NOTE = "judged with a right clock in place of the one handed in, whose error costs its own points"


def cells(*texts):
    return [cell("code", text, f"code cell {number}") for number, text in enumerate(texts, 1)]


@pytest.mark.slow
@needs_sandbox
def test_an_error_that_another_answer_builds_on_costs_once(tmp_path):
    for name, (first, second, *_) in STUDENTS.items():
        hand_in(tmp_path / "in" / name / BOOK, answered({CLOCK_KEY: first, ROWS_KEY: second}))
    said = run(tmp_path / "in", "--out", tmp_path / "out", "--tasks", "02")
    found = states(tmp_path / "out")
    for name, (_, _, *expected) in STUDENTS.items():
        assert [found[name, key][0] for key in (CLOCK_KEY, ROWS_KEY)] == expected, name
    assert [found["first wrong", key][1] for key in (CLOCK_KEY, ROWS_KEY)] == ["0", "3"]
    told = {row["student"]: NOTE in row["look at it"] for row in table(tmp_path / "out" / "marks.csv")}
    assert {name for name in told if told[name]} == {"first wrong", "first missing", "both wrong"}
    assert NOTE in (tmp_path / "out" / "feedback" / "first wrong.html").read_text(encoding="utf-8")
    assert "3 answers built on an earlier one that is not right: judged with ours in its place." in said
    lines = (tmp_path / "out" / "journal.jsonl").read_bytes().split(b"\n")
    judged = [json.loads(line)["question"][0] for line in lines if line]
    assert judged.count(ROWS_KEY) == 6 + 3  # each as it is, and three on ours
    assert "0 new answers to judge." in run(tmp_path / "in", "--out", tmp_path / "out", "--tasks", "02")
    one = run("--one", tmp_path / "in" / "first wrong" / BOOK, "--tasks", "02")
    assert NOTE in " ".join(one.split())


def test_ours_is_called_wherever_the_answer_stands():
    """Above the function that it builds on, below it, or without it; and whatever the learner's names are."""
    wrong, mine = "clock = lambda K, M: 7", "import gpipe_edu as ge\n" + ON_CLOCK
    for texts in ((wrong, mine), (mine, wrong), (mine,), (mine, wrong, "clock.__name__ = 'mine'")):
        found = cut_answer(find_exercise(ROWS_KEY), cells(*texts))
        assert found.earlier == CLOCK_KEY
        rows = make(found.with_ours().parts, "f_then_b")(2, 2)
        assert [(op.kind, op.micro_batch) for op in rows[1]] == [("F", 0), ("F", 1), ("B", 1), ("B", 0)]
        assert found.with_ours().digest != found.digest


def test_what_uses_no_earlier_answer_stands_alone():
    found = cut_answer(find_exercise(ROWS_KEY), cells(CLOCK, "import gpipe_edu as ge\n" + ALONE))
    assert (found.earlier, found.on_ours) == ("", ())
    assert cut_answer(find_exercise(CLOCK_KEY), cells(CLOCK)).earlier == ""


def test_a_name_of_another_notebook_is_no_earlier_answer():
    stage = cut_answer(
        find_exercise("ex04/checkpoint"), cells(CLOCK, "def forward(stages, x, again):\n    return clock(2, 3)")
    )
    assert stage.earlier == ""


def test_without_the_solutions_an_answer_stands_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "ROOT", tmp_path)
    cutting._ours.cache_clear()
    assert cut_answer(find_exercise(ROWS_KEY), cells(CLOCK, ON_CLOCK)).earlier == ""
    cutting._ours.cache_clear()


@pytest.mark.parametrize("key", [key for key, one in all_exercises().items() if one.part == 1])
def test_ours_of_every_first_part_is_there(key):
    exercise = find_exercise(key)
    if any(one.notebook == exercise.notebook and one.part > 1 for one in all_exercises().values()):
        ours = cutting._ours(key)
        assert callable(make(((ours.cell.name, 1, ours.text),), exercise.function))
