"""A roster's rows get the marks of their own students, and of no others."""

import pytest

from gpipe_edu.course.cut_answer import Answer
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.judge.findings import Finding, Report
from gpipe_edu.teaching.grading import feedback_pages
from gpipe_edu.teaching.grading.grade import Class, _find_alike, _mark
from gpipe_edu.teaching.grading.marks import Mark, as_text, mark
from gpipe_edu.teaching.grading.marks_tables import safe, write
from gpipe_edu.teaching.grading.roster import read_roster
from gpipe_edu.teaching.grading.submissions import Found, HandedIn
from tests.grading.classroom import table

KEY = "ex02/clock"


def graded(points, notes=(), alike=None):
    """A class in which each of these students has so many points."""
    marks = {name: {KEY: Mark(KEY, "passed", float(number), "", "", None, notes)} for name, number in points.items()}
    return Class(marks, (0,), HandedIn("", {name: [] for name in points}, []), alike or {})


def written(tmp_path, names, points):
    """The rows of marks.csv, of a roster with these names in one column."""
    path = tmp_path / "roster.csv"
    path.write_text("name\n" + "".join(f"{name}\n" for name in names), encoding="utf-8")
    class_ = graded(points)
    write(tmp_path, class_, read_roster(path, list(points)))
    return [(row["name"], row["total"], row["remark"]) for row in table(tmp_path / "marks.csv")]


UNCLEAR = "no marks here, as {} may be this student or another whose name differs only in accents or case"


@pytest.mark.parametrize(
    ("names", "points", "rows"),
    [
        (["José Diaz", "Jose Diaz"], {"José Diaz": 1, "Jose Diaz": 2}, [("1", ""), ("2", "")]),
        (["Jose Diaz", "José Diaz"], {"José Diaz": 1, "Jose Diaz": 2}, [("2", ""), ("1", "")]),
        (["José Diaz", "Jose Diaz"], {"José Diaz": 1, "josediaz": 2}, [("1", ""), ("2", "")]),  # one is left of both
        (["José Diaz", "Ada L"], {"josediaz": 1, "ADA.L": 2}, [("1", ""), ("2", "")]),
        (["José Diaz", "Ada L"], {"Ada L": 2}, [("", "nothing handed in"), ("2", "")]),
        (
            ["José Diaz", "Jose Diaz", "Ada L"],
            {"josediaz": 1, "Ada L": 2},
            [("", UNCLEAR.format("josediaz")), ("", UNCLEAR.format("josediaz")), ("2", "")],
        ),
        (
            ["José Diaz", "Ada L"],
            {"josediaz": 1, "Jose Diaz": 2, "Ada L": 0},
            [("", UNCLEAR.format("Jose Diaz or josediaz")), ("0", "")],
        ),
    ],
)
def test_nobody_gets_another_s_marks(tmp_path, names, points, rows):
    found = written(tmp_path, names, points)
    assert found[: len(names)] == [(name, *row) for name, row in zip(names, rows, strict=True)]
    placed = {total for total, _ in rows} - {""}
    left = {name for name, number in points.items() if str(number) not in placed}
    assert {remark for _, _, remark in found[len(names) :]} == {f"not in the roster: {name}" for name in left}


def test_what_may_bear_on_a_mark_stands_in_a_column_for_a_person(tmp_path):
    def answer(text):
        return {KEY: Found(find_exercise(KEY), Answer("cut", "clock", (("code cell 1", 1, text),)), "", ())}

    files = {"ada": ["with dan.ipynb"], "bob": ["b.ipynb"], "carl": ["c.ipynb"], "dan": ["with dan.ipynb"]}
    answers = {"ada": answer("def a"), "bob": answer("def b"), "carl": answer("def a"), "dan": answer("def a")}
    alike = _find_alike(answers, HandedIn("", files, []))
    assert alike.pop("dan") == {KEY: ["carl"]}
    alike["carl"][KEY].remove("dan")
    write(tmp_path, graded({"ada": 2, "bob": 2, "carl": 2}, ("of 2 files, the newest counts",), alike), None)
    rows = {row["student"]: row["look at it"] for row in table(tmp_path / "marks.csv")}
    note = f"{KEY}: of 2 files, the newest counts"
    assert rows == {
        "ada": f"{note}; {KEY}: the same text as carl",
        "bob": note,
        "carl": f"{note}; {KEY}: the same text as ada",
    }


def test_a_cell_that_is_no_python_is_told_once():
    where, note = "code cell 3, line 2: invalid syntax", "of 2 files, the newest counts"
    found = Found(find_exercise(KEY), Answer("broken", "clock", (), (where,)), "", (note, where))
    assert as_text(_mark(found, {}, None)) == f"{where}\n({note})"


def test_the_page_of_the_class_has_no_names(tmp_path):
    class_ = graded({"ada": 1, "grace": 2})
    class_.handed_in.notes.append("ada/photo.png is passed over")
    feedback_pages.write(tmp_path, class_)
    page = (tmp_path / "class.html").read_text(encoding="utf-8")
    assert "1 thing among the hand-ins passed over; passed_over.txt says which." in page
    assert not any(name in page for name in ("ada", "grace", "photo"))
    assert (tmp_path / "passed_over.txt").read_text(encoding="utf-8") == "ada/photo.png is passed over\n"


def test_the_page_tells_misconceptions_and_neither_promises_nor_crashes(tmp_path):
    class_ = graded({"ada": 1})
    row = class_.marks["ada"]
    for key, state, slip in (
        ("ex01/splitting", "passed", "no-refusal"),
        ("ex02/f-then-b", "wrong", "mirrored"),
        ("ex03/accumulation", "wrong", "error"),
        ("ex06/partition", "wrong", "endless"),
    ):
        finding = Finding(slip, f"The sentence of {slip}.")
        over = (finding,) if state == "passed" else ()
        report = Report(key, state, 0, 1, None if over else finding, None, "", over)
        row[key] = mark([report])
    row["ex07/1f1b"] = Mark("ex07/1f1b", "broken", 0.0, "code cell 3, line 2: invalid syntax")
    feedback_pages.write(tmp_path, class_)
    page = (tmp_path / "class.html").read_text(encoding="utf-8")
    believed = page.partition("What they believe")[2].partition("What to put to the vote")[0]
    assert "The sentence of mirrored." in believed
    assert not [word for word in ("no-refusal", "error", "endless", "syntax") if word in believed]


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("a;=1+1", "a;'=1+1"),
        ('x\n;\t"@SUM(A1)', "x ; \"'@SUM(A1)"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\x1b[2Jred", "\\x1b[2Jred"),
        ("ex02: one; ex03: two", "ex02: one; ex03: two"),
        ("-2.5", "-2.5"),
    ],
)
def test_a_cell_is_no_formula_even_where_semicolons_part_cells(text, cell):
    assert safe(text) == cell
