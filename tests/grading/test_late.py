"""What comes after the deadline costs what each day costs, is told, and is judged with seeds of its own."""

import json
import os
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from gpipe_edu.teaching.grading import late
from gpipe_edu.teaching.grading.file_listing import Sent
from gpipe_edu.teaching.grading.journal import Seeds
from gpipe_edu.teaching.grading.late import Deadline, charge, clocks, read_deadlines, read_extensions
from gpipe_edu.teaching.grading.marks import Mark
from gpipe_edu.teaching.grading.submissions import find

from .classroom import CLOCK, LOOP, answered, hand_in, needs_sandbox, run, states, table

KEY, BOOK = "ex02/clock", "exercise_02_clock.ipynb"
DUE = datetime(2026, 11, 20, 23, 59)


def write(path, *lines):
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def sent_in(place):
    """When each student's only file was handed in, and what tells."""
    return {name: file.sent[:2] for name, (file,) in find(place).students.items()}


@pytest.mark.parametrize(
    ("minutes", "points", "note"),
    [
        (-1, 2.0, None),
        (0, 2.0, None),
        (1, 1.8, "1 day late: handed in 2026-11-21 00:00, as X tells; due 2026-11-20 23:59; 0.2 points off"),
        (24 * 60, 1.8, "1 day late: "),
        (24 * 60 + 1, 1.6, "2 days late: "),
        (30 * 24 * 60, 0.0, "30 days late: handed in 2026-12-20 23:59, as X tells; due 2026-11-20 23:59; 2 points off"),
    ],
)
def test_each_day_begun_costs_its_part_of_the_task_s_points(minutes, points, note):
    mark = charge("ada", Mark(KEY, "passed", 2.0), Sent(DUE + timedelta(minutes=minutes), "X"), Deadline(DUE, 0.1), {})
    assert mark.points == pytest.approx(points)
    assert (not mark.notes) if note is None else mark.notes[0].startswith(note)


def test_who_has_more_time_loses_nothing_before_it_ends():
    mark, deadline = Mark(KEY, "partly", 1.5, notes=("left out",)), Deadline(DUE, 0.5)
    extensions = {("ada", KEY): datetime(2026, 11, 25)}
    in_time = charge("ada", mark, Sent(datetime(2026, 11, 24), "X"), deadline, extensions)
    assert in_time.points == 1.5
    told = "handed in 2026-11-24 00:00, as X tells; due 2026-11-25 00:00, by an extension"
    assert in_time.notes == (told, "left out")
    assert charge("ada", mark, Sent(datetime(2026, 11, 25, 1), "X"), deadline, extensions).points == 0.5
    assert charge("bob", mark, Sent(datetime(2026, 11, 24), "X"), deadline, extensions).points == 0.0


def test_what_nobody_knows_costs_nothing_and_is_told():
    mark, deadline = Mark(KEY, "passed", 2.0), Deadline(DUE, 0.1)
    assert charge("ada", mark, Sent(None, "nobody"), deadline, {}) is mark
    flagged = charge("ada", mark, Sent(None, "Canvas", late=True), deadline, {})
    assert (flagged.points, flagged.notes) == (
        2.0,
        ("late, as Canvas tells, but not how many days: nothing was taken off",),
    )
    unjudged = charge("ada", Mark(KEY, "not judged", None), Sent(datetime(2026, 12, 1), "X"), deadline, {})
    assert unjudged.points is None
    assert charge("ada", mark, Sent(datetime(2026, 12, 1), "X"), None, {}) is mark


def test_a_time_in_a_name_is_that_of_the_platform(tmp_path):
    for student, day in (("ada", "20"), ("bob", "22")):
        hand_in(tmp_path / f"Sheet 1_{student}_attempt_2026-11-{day}-10-30-00_{BOOK}", "{}")
    assert sent_in(tmp_path) == {
        "ada": (datetime(2026, 11, 20, 10, 30), "Blackboard's export"),
        "bob": (datetime(2026, 11, 22, 10, 30), "Blackboard's export"),
    }
    assert clocks(find(tmp_path)) == "Late is counted by Blackboard's export."


def test_brightspace_s_times_stand_in_its_names(tmp_path):
    hand_in(tmp_path / "71-17 - Ada L - Nov 20, 2026 905 AM" / BOOK, "{}")
    hand_in(tmp_path / "72-18 - Bo - Nov 21, 2026 1201 AM" / BOOK, "{}")
    assert sent_in(tmp_path) == {
        "Ada L": (datetime(2026, 11, 20, 9, 5), "Brightspace's export"),
        "Bo": (datetime(2026, 11, 21, 0, 1), "Brightspace's export"),
    }
    assert clocks(find(tmp_path)) == "Late is counted by Brightspace's export."


def test_gradescope_s_times_are_those_of_its_list(tmp_path):
    for number in (11, 12):
        hand_in(tmp_path / f"submission_{number}" / BOOK, "{}")
    write(
        tmp_path / "submission_metadata.yml",
        "submission_11:",
        "  :submitters:",
        "  - :name: Ada L",
        "    :sid: '1'",
        "    :email: ada@x",
        "  :created_at: 2026-11-22 10:30:00.123456000 Z",
        "  :history:",
        "  - :id: 10",
        "    :created_at: 2026-11-01 10:30:00.123456000 Z",
    )
    here = datetime(2026, 11, 22, 10, 30, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert sent_in(tmp_path) == {"Ada L": (here, "Gradescope's export"), "submission_12": (None, "nobody")}
    assert clocks(find(tmp_path)).endswith("Nothing tells by how much 1 hand-in may be late.")


def test_what_is_in_a_student_s_archive_has_the_archive_s_own_time(tmp_path):
    with zipfile.ZipFile(tmp_path / "work.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(BOOK, (2001, 1, 1, 0, 0, 0)), "{}")
    inner = (tmp_path / "work.zip").read_bytes()
    place = tmp_path / "in"
    hand_in(place / "bob" / BOOK, "{}")
    (place / "ada").mkdir()
    (place / "ada" / "work.zip").write_bytes(inner)
    for path, day in (("ada/work.zip", 21), (f"bob/{BOOK}", 22)):
        time = datetime(2026, 11, day, 10, 30).timestamp()
        os.utime(place / path, (time, time))
    own = "the file's own time"
    expected = {"ada": (datetime(2026, 11, 21, 10, 30), own), "bob": (datetime(2026, 11, 22, 10, 30), own)}
    assert sent_in(place) == expected
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("ada/work.zip", (2026, 11, 21, 10, 30, 0)), inner)
        archive.writestr(zipfile.ZipInfo(f"bob/{BOOK}", (2026, 11, 22, 10, 30, 0)), "{}")
        archive.writestr(zipfile.ZipInfo(f"carl/{BOOK}"), "{}")  # 1980, where no time was given
    assert sent_in(tmp_path / "all.zip") == expected | {"carl": (None, "nobody")}


def test_times_of_a_download_are_nobody_s(tmp_path):
    for name in (f"ada_LATE_1_2_{BOOK}", f"bo_3_4_{BOOK}"):
        hand_in(tmp_path / "canvas" / name, "{}")
    files = {name: file.sent for name, (file,) in find(tmp_path / "canvas").students.items()}
    assert files == {"ada": Sent(None, "Canvas", late=True), "bo": Sent(None, "Canvas")}
    for name in ("Ada L_1_assignsubmission_file", "Bo_2_assignsubmission_file"):
        hand_in(tmp_path / "moodle" / name / BOOK, "{}")
    assert sent_in(tmp_path / "moodle") == {"Ada L": (None, "nobody"), "Bo": (None, "nobody")}
    assert clocks(find(tmp_path / "moodle")) == "Nothing tells by how much 2 hand-ins may be late."


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"{KEY},,soon,10%", r"line 2, has the time 'soon'; write it as 2026-11-20 23:59"),
        (f"{KEY},,2026-11-20,lots", r"has per_day 'lots'; it is a percentage"),
        (f"{KEY},,2026-11-20,-5", r"has per_day '-5'"),
        (f"{KEY},,,10%", r"has per_day '10%' but no due"),
    ],
)
def test_deadlines_that_make_no_sense_are_told(tmp_path, line, told):
    with pytest.raises(ValueError, match=told):
        read_deadlines(write(tmp_path / "points.csv", "task,points,due,per_day", line))


def test_a_deadline_s_clock_is_this_machine_s(tmp_path):
    path = write(
        tmp_path / "points.csv",
        "task,points,due,per_day",
        f"{KEY},5,2026-11-20T23:59:00+00:00,10",
        "ex01/splitting,1,,",
    )
    here = datetime(2026, 11, 20, 23, 59, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert read_deadlines(path) == {KEY: Deadline(here, 0.1)}


def test_extensions_are_of_students_and_tasks_that_are_there(tmp_path):
    assert read_extensions(tmp_path, ["ada"], [KEY]) == {}
    write(tmp_path / late.EXTENSIONS, "student,task,due", f"ada,{KEY},2026-11-25", "bob,,2026-11-26 12:00")
    assert read_extensions(tmp_path, ["ada", "bob"], [KEY, "ex01/splitting"]) == {
        ("ada", KEY): datetime(2026, 11, 25),
        ("bob", KEY): datetime(2026, 11, 26, 12),
        ("bob", "ex01/splitting"): datetime(2026, 11, 26, 12),
    }
    with pytest.raises(ValueError, match="names the student 'bob'"):
        read_extensions(tmp_path, ["ada"], [KEY])
    with pytest.raises(ValueError, match="names the task"):
        read_extensions(tmp_path, ["ada", "bob"], ["ex01/splitting"])


def test_seeds_are_drawn_once_and_late_ones_apart(tmp_path):
    first = Seeds(tmp_path, 2)
    of_class, of_ada = first.of(""), first.of("ada")
    assert len({*of_class, *of_ada}) == 4
    again = Seeds(tmp_path, 3)
    assert (again.of("")[:2], again.of("ada")[:2]) == (of_class, of_ada)
    write(tmp_path / "seeds.json", "[1, 2, 3]")  # as before late hand-ins had seeds of their own
    assert Seeds(tmp_path, 2).of("") == (1, 2)
    write(tmp_path / "seeds.json", '{"": "x"}')
    with pytest.raises(ValueError, match="is damaged"):
        Seeds(tmp_path, 1)


@pytest.mark.slow
@needs_sandbox
def test_a_class_with_late_hand_ins(tmp_path):
    for name, text, day in (
        ("ada", CLOCK, 20),
        ("bob", CLOCK, 22),
        ("carl", CLOCK, 22),
        ("dan", CLOCK, 22),
        ("eve", LOOP, 22),
    ):
        path = hand_in(tmp_path / "in" / name / BOOK, answered({KEY: text}))
        time = datetime(2026, 11, day, 10, 30).timestamp()
        os.utime(path, (time, time))
    out = tmp_path / "out"
    out.mkdir()
    points = write(tmp_path / "points.csv", "task,points,due,per_day", f"{KEY},10,2026-11-20 23:59,15%")
    write(out / late.EXTENSIONS, "student,due", "carl,2026-11-25")
    write(out / "override.csv", "student,task,points,why", f"dan,{KEY},10,was ill")
    said = run(tmp_path / "in", "--out", out, "--tasks", KEY, "--points", points)
    assert "Late is counted by the file's own time." in said
    assert {name: points for (name, _), (_, points) in states(out).items()} == {
        "ada": "10",
        "bob": "7",
        "carl": "10",
        "dan": "10",
        "eve": "0",
    }
    rows = {row["student"]: row for row in table(out / "marks.csv")}
    note = "2 days late: handed in 2026-11-22 10:30, as the file's own time tells; due 2026-11-20 23:59; 3 points off"
    assert note in rows["bob"]["look at it"]
    assert rows["bob"]["total"] == "7"
    assert "due 2026-11-25 00:00, by an extension" in rows["carl"]["look at it"]
    assert "set by hand to 10 points, from 7: was ill" in rows["dan"]["look at it"]
    page = (out / "feedback" / "bob.html").read_text(encoding="utf-8")
    assert note.replace("'", "&#x27;") in page
    assert "7 of 10 points." in page
    seeds = json.loads((out / "seeds.json").read_text(encoding="utf-8"))
    assert seeds.keys() == {"", "bob", "carl", "dan", "eve"}
    judged = [json.loads(line)["question"] for line in (out / "journal.jsonl").read_bytes().split(b"\n") if line]
    assert sorted(seed for _, _, seed, _ in judged) == sorted(seed for own in seeds.values() for seed in own)
