"""Marks go back into the gradebooks that platforms export, and feedback into the folders by which Moodle takes it."""

import csv
import io
import re
import zipfile
from datetime import datetime

import pytest

from gpipe_edu.teaching.grading import platform_gradebook
from gpipe_edu.teaching.grading.grade import Class
from gpipe_edu.teaching.grading.late import clocks
from gpipe_edu.teaching.grading.marks import Mark
from gpipe_edu.teaching.grading.platform_gradebook import (
    Target,
    find_target,
    with_times,
    write_feedback,
    write_gradebook,
)
from gpipe_edu.teaching.grading.roster import read_roster
from gpipe_edu.teaching.grading.submissions import find

from .classroom import CLOCK, LOOP, answered, hand_in, needs_sandbox, run

KEY, BOOK = "ex02/clock", "exercise_02_clock.ipynb"

CANVAS = (
    'Student,ID,SIS User ID,SIS Login ID,Section,Sheet 1 (4101),"Sheet 2, the clock (4102)",Current Score,'
    "Current Score (2026)\r\n"
    ",,,,,Manual Posting,,,\r\n"
    "    Points Possible,,,,,10.00,20.00,(read only),(read only)\r\n"
    '"Lovelace, Ada",311,A1,ada@example.org,Tuesday,9.00,,90.00,90.00\r\n'
    '"Diaz, Jose",312,A2,jose@example.org,Tuesday,8.00,3.00,80.00,80.00\r\n'
    '"Diaz, Jose",313,A3,jd@example.org,"Tuesday and ""late"" group",EX,,,\r\n'
    '"Student, Test",399,,f00d,Tuesday,,,,\r\n'
)
MOODLE = (
    "Identifier,\"Full name\",\"Email address\",Status,Grade,\"Maximum Grade\",\"Grade can be changed\","
    "\"Last modified (submission)\",\"Online text\",\"Last modified (grade)\",\"Feedback comments\"\n"
    "\"Participant 51\",\"Ada L\",ada@example.org,\"Submitted for grading - \",,100.00,Yes,"
    "\"Sunday, 22 November 2026, 10:30 PM\",,-,\n"
    "\"Participant 52\",Bo,bo@example.org,\"Submitted for grading - \",55.00,100.00,Yes,"
    "\"Friday, 20 November 2026, 9:05 AM\",,\"Friday, 20 November 2026, 9:05 AM\",\"see \"\"me\"\"\"\n"
    "\"Participant 53\",Cy,cy@example.org,\"No submission - \",,100.00,Yes,-,,-,\n"
)  # fmt: skip


def graded(place, points):
    """A class of these hand-ins, with so many points of two each."""
    handed_in = find(place)
    marks = {name: {KEY: Mark(KEY, "passed", points[name])} for name in handed_in.students}
    return Class(marks, (0,), handed_in, {})


def lay(place, *paths):
    for path in paths:
        hand_in(place / path, "{}")
    return place


def roster_of(tmp_path, text, class_):
    (tmp_path / "export.csv").write_bytes(text.encode())
    return read_roster(tmp_path / "export.csv", list(class_.marks), class_.handed_in.numbers)


def parsed(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_canvas_gets_its_gradebook_back_with_one_column_filled(tmp_path, mark):
    place = lay(tmp_path / "in", f"lovelaceada_311_9001_{BOOK}", f"diazjose_LATE_313_9002_{BOOK}")
    class_ = graded(place, {"lovelaceada": 2.0, "diazjose": 0.5})
    who = roster_of(tmp_path, mark + CANVAS, class_)
    assert who.whose == {2: "lovelaceada", 4: "diazjose"}  # and not the other Jose Diaz, who has handed in nothing
    target = find_target(who, "clock")
    assert target == Target("Sheet 2, the clock (4102)", 20.0)
    told = write_gradebook(tmp_path, class_, who, target)
    assert told == (
        "gradebook.csv is the roster with 2 marks in the column 'Sheet 2, the clock (4102)', 2 points made 20."
    )
    text = (tmp_path / "gradebook.csv").read_bytes().decode()
    assert text.startswith(mark + "Student,ID,")
    assert text.count("\r\n") == text.count("\n") == 7
    before, after = parsed(CANVAS), parsed(text.removeprefix(mark))
    changed = {(i, j): cell for i, row in enumerate(after) for j, cell in enumerate(row) if cell != before[i][j]}
    assert changed == {(3, 6): "20", (5, 6): "5"}
    assert after[2][0] == "    Points Possible"


def test_of_many_activities_one_has_to_be_named(tmp_path):
    class_ = graded(lay(tmp_path / "in", f"lovelaceada_311_9001_{BOOK}"), {"lovelaceada": 2.0})
    who = roster_of(tmp_path, CANVAS, class_)
    assert find_target(who, "") is None
    with pytest.raises(ValueError, match=re.escape("'Sheet' fits 2 columns of the roster's; say which gets the marks")):
        find_target(who, "Sheet")
    for name in ("Current Score (2026)", "Section", "none"):  # what Canvas would not read
        with pytest.raises(ValueError, match="fits 0 columns"):
            find_target(who, name)


def test_moodle_gets_its_worksheet_and_its_times_are_the_class_s(tmp_path):
    place = lay(tmp_path / "in", f"Ada L_51_assignsubmission_file/{BOOK}", f"Bo_52_assignsubmission_file/{BOOK}")
    class_ = graded(place, {"Ada L": 1.5, "Bo": None})
    who = roster_of(tmp_path, MOODLE, class_)
    target = find_target(who, "")
    assert target == Target("Grade", 100.0)
    write_gradebook(tmp_path, class_, who, target)
    before, after = parsed(MOODLE), parsed((tmp_path / "gradebook.csv").read_text(encoding="utf-8"))
    changed = {(i, j): cell for i, row in enumerate(after) for j, cell in enumerate(row) if cell != before[i][j]}
    assert changed == {(1, 4): "75"}  # who has no mark yet keeps what is there
    timed = with_times(class_.handed_in, who)
    assert {name: file.sent.time for name, (file,) in timed.students.items()} == {
        "Ada L": datetime(2026, 11, 22, 22, 30),
        "Bo": datetime(2026, 11, 20, 9, 5),
    }
    assert clocks(timed) == "Late is counted by Moodle's worksheet."


def test_nobody_gets_a_namesake_s_mark_by_moodle_s_numbers(tmp_path):
    place = lay(tmp_path / "in", f"Bo_52_assignsubmission_file/{BOOK}", f"Cy_99_assignsubmission_file/{BOOK}")
    who = roster_of(tmp_path, MOODLE, graded(place, {"Bo": 1.0, "Cy": 2.0}))
    assert who.whose == {1: "Bo"}  # this Cy is Participant 53


def test_without_numbers_names_decide_and_any_column_may_be_filled(tmp_path):
    class_ = graded(lay(tmp_path / "in", f"Ada L/{BOOK}"), {"Ada L": 1.25})
    who = roster_of(tmp_path, 'Name;Punkte;Bemerkung\nAda L;;"a;""b"""\nBo\n', class_)
    assert find_target(who, "") is None
    told = write_gradebook(tmp_path, class_, who, find_target(who, "Punkte"))
    assert told.endswith("in the column 'Punkte', out of 2; nothing there tells what the platform's largest is.")
    assert (tmp_path / "gradebook.csv").read_text() == 'Name;Punkte;Bemerkung\nAda L;1.25;"a;""b"""\nBo;;\n'


def test_a_roster_that_is_not_in_utf_8_comes_back_byte_by_byte(tmp_path):
    class_ = graded(lay(tmp_path / "in", f"José Diaz/{BOOK}"), {"José Diaz": 2.0})
    before = "Name,Mark,Note\nJosé Diaz,,naïve\n".encode("cp1252")
    (tmp_path / "export.csv").write_bytes(before)
    who = read_roster(tmp_path / "export.csv", list(class_.marks))
    write_gradebook(tmp_path, class_, who, find_target(who, "Mark"))
    assert (tmp_path / "gradebook.csv").read_bytes() == before.replace(b",,", b",2,")


@pytest.mark.parametrize("listed", ["Mina Rad\u200cnia", "Mina Radnia"])
def test_a_name_with_a_character_without_width_is_found_with_and_without_it(tmp_path, listed):
    (tmp_path / "export.csv").write_text(f"Name,Mark\n{listed},\n")
    found = find(lay(tmp_path / "in", f"Mina Rad\u200cnia/{BOOK}"))
    assert read_roster(tmp_path / "export.csv", list(found.students)).whose == {0: r"Mina Rad\u200cnia"}


def moodle_reads(path):
    """As Moodle does, before 4.1, too: a part that splits at underscores into name, number, plugin and what is left."""
    parts = path.split("/")
    while parts:
        _, *rest = parts.pop(0).split("_", 4)
        if len(rest) == 4 and rest[0].isdecimal():
            return rest[0], "_".join(rest[1:3]), "/".join(filter(None, [rest[3], *parts]))
    return None


@pytest.mark.parametrize("ending", ["/", "_/", "_"])
def test_moodle_takes_the_zip_of_feedback_back(tmp_path, ending):
    names = ("Ada L_51", "Bo_52", "Bo_53")
    place = lay(tmp_path / "in", *(f"{name}_assignsubmission_file{ending}{BOOK}" for name in names))
    handed_in = find(place)
    pages = {name: f"the page of {name} \ud800" for name in handed_in.students}
    write_feedback(tmp_path, pages, handed_in)
    with zipfile.ZipFile(tmp_path / platform_gradebook.FEEDBACK) as archive:
        read = {moodle_reads(name): archive.read(name).decode() for name in archive.namelist()}
    assert read == {
        ("51", "assignsubmission_file", "feedback.html"): r"the page of Ada L \ud800",
        ("52", "assignsubmission_file", "feedback.html"): r"the page of Bo 52 \ud800",
        ("53", "assignsubmission_file", "feedback.html"): r"the page of Bo 53 \ud800",
    }


def test_others_get_no_zip_for_moodle(tmp_path):
    write_feedback(tmp_path, {"ada": "page"}, find(lay(tmp_path / "in", f"ada/{BOOK}")))
    assert not (tmp_path / platform_gradebook.FEEDBACK).exists()


def test_clones_of_github_classroom_are_their_users(tmp_path):
    place = tmp_path / "sheet-02-submissions"
    lay(place, f"sheet-02-ada-l/{BOOK}", f"sheet-02-bo/work/{BOOK}")
    found = find(place)
    assert (found.layout, set(found.students)) == ("GitHub Classroom's: ASSIGNMENT-USER", {"ada-l", "bo"})
    assert {file.sent.time for (file,) in found.students.values()} == {None}  # files have the time of the clone
    who = "identifier,github_username,github_id,name\nada@example.org,ada-l,7,\nbo@example.org,bo,8,Bo\ncy@x,,,\n"
    (tmp_path / "classroom_roster.csv").write_text(who, encoding="utf-8")
    assert read_roster(tmp_path / "classroom_roster.csv", list(found.students)).whose == {0: "ada-l", 1: "bo"}
    assert set(find(tmp_path).students) == {"ada-l", "bo"}  # the folder above


def test_other_clones_are_known_by_what_their_names_share(tmp_path):
    lay(tmp_path, f"sheet-02-ada/{BOOK}", f"sheet-02-alan/{BOOK}")
    assert set(find(tmp_path).students) == {"sheet-02-ada", "sheet-02-alan"}  # folders, for all that is known
    for name in ("ada", "alan"):
        (tmp_path / f"sheet-02-{name}" / ".git").mkdir()
    assert set(find(tmp_path).students) == {"ada", "alan"}


@pytest.mark.slow
@needs_sandbox
def test_a_class_from_moodle_goes_back_there(tmp_path):
    for name, text in (("Ada L_51", CLOCK), ("Bo_52", LOOP)):
        hand_in(tmp_path / "in" / f"{name}_assignsubmission_file" / BOOK, answered({KEY: text}))
    (tmp_path / "sheet.csv").write_text(MOODLE, encoding="utf-8")
    (tmp_path / "points.csv").write_text(f"task,points,due,per_day\n{KEY},,2026-11-22 12:00,50%\n", encoding="utf-8")
    out = tmp_path / "out"
    more = ("--roster", tmp_path / "sheet.csv", "--points", tmp_path / "points.csv")
    said = run(tmp_path / "in", "--out", out, "--tasks", KEY, *more)
    assert "gradebook.csv is the roster with 2 marks in the column 'Grade', 2 points made 100." in said
    rows = parsed((out / "gradebook.csv").read_text(encoding="utf-8"))
    assert [row[4] for row in rows] == ["Grade", "50", "0", ""]
    with zipfile.ZipFile(out / "moodle_feedback.zip") as archive:
        page = archive.read("Ada L_51_assignsubmission_file_/feedback.html").decode()
    assert page == (out / "feedback" / "Ada L.html").read_text(encoding="utf-8")
    assert "1 day late: handed in 2026-11-22 22:30, as Moodle&#x27;s worksheet tells" in page
