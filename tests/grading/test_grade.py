"""A class is graded: right, wrong and hostile answers, interrupted and again; nothing but the marks is there after."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpipe_edu.judge.exercise import find_exercise, keys
from gpipe_edu.process.enclosure import SANDBOX
from gpipe_edu.process.probes import Confinement
from gpipe_edu.teaching.grading import grade, marks_tables, submissions
from gpipe_edu.teaching.grading.marks import Mark
from tests import preloaded
from tests.amount import third, whole
from tests.processes import ROOT, running

from .classroom import (
    CLOCK,
    LOOP,
    NOBODY,
    SEVEN,
    answer_cell,
    answered,
    code,
    digests,
    for_all,
    for_nobody,
    hand_in,
    needs_sandbox,
    notebook,
    run,
    solved,
    states,
    table,
)
from .hostile import HOSTILE

pytestmark = [pytest.mark.slow, needs_sandbox]

BOOK = "exercise_02_clock.ipynb"

DUE = third([*HOSTILE])

ROWS = "def f_then_b(K, M):\n    return [[ge.Op(c, m, k) for c in 'FB' for m in range(M)] for k in range(K)]"

SPLIT = """def split(batch, M):
    if M < 1:
        raise ValueError("M must be at least 1")
    if isinstance(batch, tuple):
        return list(zip(*(split(part, M) for part in batch), strict=True))
    N = len(batch)
    return [batch[m * N // M : (m + 1) * N // M] for m in range(M)]"""

WORK = "from gpipe_edu.judge.worker import main; main()"

PROMISE = SPLIT.replace('    if M < 1:\n        raise ValueError("M must be at least 1")\n', "")


@pytest.fixture(scope="module")
def classroom(tmp_path_factory):
    """The hand-ins of a class, for tasks 01 and 02."""
    place = tmp_path_factory.mktemp("class") / "in"
    hand_in(place / "right" / BOOK, answered({"ex02/clock": CLOCK, "ex02/f-then-b": ROWS}))
    hand_in(place / "right" / "exercise_01_splitting.ipynb", answered({"ex01/splitting": SPLIT}))
    hand_in(place / "twin" / BOOK, answered({"ex02/clock": CLOCK, "ex02/f-then-b": ROWS}))
    hand_in(place / "loop" / BOOK, answered({"ex02/clock": LOOP}))
    hand_in(place / "seven" / BOOK, answered({"ex02/clock": SEVEN}))
    hand_in(place / "promise" / "exercise_01_splitting.ipynb", answered({"ex01/splitting": PROMISE}))
    hand_in(place / "unsolved" / BOOK, notebook("exercise_02_clock"))
    hand_in(place / "broken" / BOOK, answered({"ex02/clock": "def clock(K, M:\n    return 7"}))
    hand_in(place / "not json" / BOOK, "this is no notebook")
    elsewhere = answered({"ex02/clock": CLOCK})
    elsewhere["cells"].insert(0, code("this is no python"))
    hand_in(place / "broken elsewhere" / BOOK, elsewhere)
    doubled = answered({"ex02/clock": SEVEN})
    doubled["cells"] += [dict(cell) for cell in doubled["cells"]]
    hand_in(place / "doubled" / BOOK, doubled)
    old = hand_in(place / "twice" / BOOK, answered({"ex02/clock": SEVEN}))
    os.utime(old, (1, 1))
    hand_in(place / "twice" / "exercise_02_clock (1).ipynb", answered({"ex02/clock": CLOCK}))
    hand_in(place / "=2+5" / "exercise_02_clock.py", "import gpipe_edu as ge\n" + CLOCK)
    (place / "only a picture").mkdir()
    (place / "only a picture" / "answer.png").write_bytes(b"PNG")
    hand_in(place / "too large" / BOOK, json.dumps(answered({"ex02/clock": CLOCK})) + " " * 20_000_000)
    text = json.dumps(answered({"ex02/clock": CLOCK}))
    for name, encoding in (("with a mark", "utf-8-sig"), ("in two bytes", "utf-16")):
        hand_in(place / name / BOOK, "").write_bytes(text.encode(encoding))
    old = [{"cell_type": "code", "input": CLOCK.splitlines(keepends=True)}]
    hand_in(place / "old" / BOOK, json.dumps({"nbformat": 3, "worksheets": [{"cells": old}]}))
    bare = answered({"ex02/clock": CLOCK})
    for cell in bare["cells"]:
        cell["metadata"] = {}
    hand_in(place / "bare" / BOOK, bare)
    deleted = answered({"ex02/clock": CLOCK})
    deleted["cells"].remove(answer_cell(deleted, "ex02/clock"))
    hand_in(place / "deleted" / BOOK, deleted)
    unchecked = answered({"ex02/clock": CLOCK})
    unchecked["cells"] = [cell for cell in unchecked["cells"] if "check(" not in "".join(cell["source"])]
    hand_in(place / "unchecked" / BOOK, unchecked)
    edited = answered({"ex02/clock": CLOCK})
    for cell in edited["cells"]:
        if "check(" in "".join(cell["source"]):
            cell["source"] = "raise SystemExit"
    hand_in(place / "edited" / BOOK, edited)
    for name in DUE:
        answers = {"ex02/clock": HOSTILE[name], "ex02/f-then-b": f"{ROWS}\nf_then_b.by = {name!r}"}
        hand_in(place / name / BOOK, answered(answers))
    return place


@pytest.fixture(scope="module")
def graded(classroom, tmp_path_factory):
    """Where the marks are, what was printed, and the class's folder before."""
    out, home, temporary = (tmp_path_factory.mktemp(name) for name in ("out", "home", "temporary"))
    before = digests(classroom)
    package = digests(Path(ROOT) / "gpipe_edu" / "judge")
    (home / "progress.json").write_text("{}")
    said = run(
        classroom, "--out", out / "marks", "--tasks", "01,02", "--jobs", "2",
        program="gpipe_edu" if whole() else "tests.grading.impatient",
        GPIPE_EDU_HOME=str(home), TMPDIR=str(temporary),
    )  # fmt: skip
    assert running(temporary) == []
    assert digests(classroom) == before
    assert digests(Path(ROOT) / "gpipe_edu" / "judge") == package
    assert (home / "progress.json").read_text() == "{}"
    assert list(temporary.iterdir()) == []
    return out / "marks", said


def test_every_mark_is_as_it_is_documented(graded):
    found = states(graded[0])
    assert found["right", "ex01/splitting"] == ("passed", "3")
    assert found["right", "ex02/clock"] == ("passed", "2")
    assert found["twin", "ex02/f-then-b"] == ("passed", "3")
    assert found["twin", "ex01/splitting"] == ("missing", "0")
    assert found["promise", "ex01/splitting"] == ("partly", "2.25")
    assert found["loop", "ex02/clock"] == ("wrong", "0")
    assert found["seven", "ex02/clock"] == ("wrong", "0")
    assert found["unsolved", "ex02/clock"] == ("unwritten", "0")
    assert found["broken", "ex02/clock"] == ("broken", "0")
    assert found["not json", "ex02/clock"] == ("refused", "0")
    assert found["broken elsewhere", "ex02/clock"] == ("passed", "2")
    assert found["doubled", "ex02/clock"] == ("wrong", "0")
    assert found["twice", "ex02/clock"] == ("passed", "2")
    assert found["'=2+5", "ex02/clock"] == ("passed", "2")
    for name in ("with a mark", "in two bytes", "old", "bare", "unchecked", "edited"):
        assert found[name, "ex02/clock"] == ("passed", "2"), name
    assert found["too large", "ex02/clock"] == ("refused", "0")
    assert found["only a picture", "ex02/clock"] == found["deleted", "ex02/clock"] == ("missing", "0")


@pytest.mark.parametrize("name", DUE)
def test_a_hostile_answer_gets_nothing(graded, name):
    state, points = states(graded[0])[name, "ex02/clock"]
    assert (state, points) == ("missing" if name == "loops on the way" and state == "missing" else "wrong", "0")


@pytest.mark.parametrize("name", DUE)
def test_a_right_answer_beside_a_hostile_one_has_its_marks(graded, name):
    """The same student's: they run in one sandbox, one after the other."""
    assert states(graded[0])[name, "ex02/f-then-b"] == ("passed", "3")


def test_what_is_printed_says_what_holds(graded):
    said = graded[1]
    assert "Hand-ins: a folder for each student" in said
    assert "Shut to answers here: files, other processes, the network, system calls that no answer needs." in said
    assert " judged, 0 left" in said


def test_no_text_in_a_table_is_a_formula(graded):
    for name in ("marks.csv", "answers.csv"):
        with (graded[0] / name).open(encoding="utf-8", newline="") as file:
            assert not [cell for row in csv.reader(file) for cell in row if cell[:1] in ("=", "+", "-", "@")]


def test_files_for_other_programs_agree(graded):
    out, _ = graded
    rows = {row["student"]: row for row in table(out / "marks.csv")}
    data = json.loads((out / "marks.json").read_text(encoding="utf-8"))["students"]
    assert len(rows) == len(data) == len(list((out / "feedback").glob("*.html")))
    assert (rows["right"]["total"], rows["right"]["of"]) == ("8", "8")
    assert data["right"]["ex02/clock"]["points"] == 2
    assert sum(one["state"] != "passed" for row in data.values() for one in row.values()) > len(DUE)


def test_pages_stay_on_their_machine_and_tell_nobody_of_another(graded):
    out, _ = graded
    for path in [out / "class.html", *(out / "feedback").glob("*.html")]:
        text = path.read_text(encoding="utf-8")
        assert "default-src 'none'" in text
        assert "<script" not in text
        assert "http://" not in text.replace("http://www.w3.org", "")
    assert "seven" not in (out / "feedback" / "loop.html").read_text(encoding="utf-8")
    assert "One forward a tick" in (out / "feedback" / "loop.html").read_text(encoding="utf-8")
    text = (out / "class.html").read_text(encoding="utf-8")
    for words in ("By task", "One forward a tick", "What to put to the vote next", "<svg"):
        assert words in text


def test_once_more_nothing_is_judged_and_a_late_hand_in_alone_is(graded, classroom, tmp_path):
    out = tmp_path / "marks"
    shutil.copytree(graded[0], out)
    before = (out / "answers.csv").read_bytes()
    again = run(classroom, "--out", out, "--tasks", "01,02", "--jobs", "1", python=preloaded.python())
    assert "0 new answers" in again
    assert (out / "answers.csv").read_bytes() == before
    late = tmp_path / "in"
    shutil.copytree(classroom, late)
    hand_in(late / "late" / BOOK, answered({"ex02/clock": CLOCK.replace("t - k, k", "t  -  k, k")}))
    assert "1 new answer " in run(late, "--out", out, "--tasks", "01,02")
    assert states(out)["late", "ex02/clock"] == ("passed", "2")


def test_a_roster_comes_back_with_its_columns(graded, classroom, tmp_path):
    out = tmp_path / "marks"
    shutil.copytree(graded[0], out)
    roster = tmp_path / "roster.csv"
    roster.write_text(
        "Identifier;First name;Grade;Last name\n007;Right;;\n8;Nobody;-1;Here\n9;SEVEN;;\n10;loop;;\n11;loop;;\n",
        encoding="utf-8-sig",
    )
    run(classroom, "--out", out, "--tasks", "01,02", "--roster", roster, python=preloaded.python())
    rows = table(out / "marks.csv")
    assert list(rows[0])[:4] == ["Identifier", "First name", "Grade", "Last name"]
    assert [(row["Identifier"], row["Grade"], row["total"], row["remark"]) for row in rows[:3]] == [
        ("007", "", "8", ""),
        ("8", "-1", "", "nothing handed in"),
        ("9", "", "0", ""),
    ]
    assert [(row["total"], row["remark"]) for row in rows[3:5]] == [("0", "this name stands here more than once")] * 2
    assert any(row["remark"] == "not in the roster: twin" for row in rows)
    roster.write_text("a,b\n1,2\n")
    assert "no student of" in run(classroom, "--out", out, "--roster", roster, ends=2, python=preloaded.python())


def test_one_notebook_shows_its_own_report(classroom):
    said = run("--one", classroom / "loop" / BOOK)
    assert "ex02/clock: wrong, 0 of 2" in said
    assert "One forward a tick" in said
    assert "ex02/f-then-b: unwritten" in said


@pytest.mark.parametrize(
    ("class_states", "asked", "left_out"),
    [
        ([("right", "missing", "missing"), ("missing", "unwritten", "missing")], "", "c"),
        ([("right", "missing", "missing"), ("missing", "missing", "missing")], "c", "b"),
        ([("right", "missing", "missing"), ("missing", "missing", "missing")], "abc", ""),
        ([("right", "wrong", "right"), ("missing", "missing", "missing")], "", ""),
        ([("missing", "missing", "missing")], "", ""),
        ([], "", ""),
    ],
)
def test_tasks_that_nobody_has_handed_in_count_for_nobody_unless_they_were_asked_for(class_states, asked, left_out):
    rows = [{key: Mark(key, one, 0.0) for key, one in zip("abc", row, strict=True)} for row in class_states]
    given = grade.Class(dict(enumerate(rows)), (), None, {})
    found = grade.leave_out(given, asked)
    assert found.left_out == tuple(left_out)
    assert [list(row) for row in found.marks.values()] == [[key for key in "abc" if key not in left_out] for _ in rows]
    words = marks_tables.words_for_left_out(found)
    assert words.startswith(f"Nobody handed in {len(left_out)} other task" if left_out else "")
    assert bool(words) == bool(left_out)


def test_a_mark_that_a_person_has_set_is_not_left_out():
    marks = {"ada": {"a": Mark("a", "passed", 1.0), "b": Mark("b", "missing", 2.0), "c": Mark("c", "missing", 0.0)}}
    assert grade.leave_out(grade.Class(marks, (), None, {}), "").left_out == ("c",)


def test_a_class_that_was_given_two_tasks_has_points_of_these(tmp_path):
    for name, answer in (("ada", CLOCK), ("bo", LOOP)):
        hand_in(tmp_path / "in" / name / BOOK, answered({"ex02/clock": answer}))
    said = run(tmp_path / "in", "--out", tmp_path / "out")
    others = f"Nobody handed in {len(keys()) - 2} other tasks"
    assert f"{others}, which count for nobody; --tasks names what was asked for." in said
    assert [(row["total"], row["of"]) for row in table(tmp_path / "out" / "marks.csv")] == [("2", "5"), ("0", "5")]
    page = (tmp_path / "out" / "class.html").read_text(encoding="utf-8")
    assert page.count("<tr>") == 2
    assert others in page
    assert "2 of 5 points" in (tmp_path / "out" / "feedback" / "ada.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "does not exist"),
        (["in", "--tasks", "99"], "--tasks names '99'"),
        (["in", "--out", "file"], "file"),
        (["in/ada/x.txt"], "no zip archive"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    hand_in(tmp_path / "in" / "ada" / BOOK, answered({"ex02/clock": CLOCK}))
    (tmp_path / "in" / "ada" / "x.txt").write_text("")
    (tmp_path / "file").write_text("")
    said = run(*arguments, ends=2, python=preloaded.python())
    assert told in said
    assert "Traceback" not in said


def test_where_something_stands_open_it_refuses_and_says_what_to_do():
    class Open:
        def probe(self):
            return Confinement(files=True, processes=False, network=True, calls=True)

    wish = grade.Wish(("ex02/clock",))
    with pytest.raises(ValueError, match=r"^answers would not be confined here: processes would stand open.*--trust"):
        grade.check_confinement(Open(), wish)
    assert "run as you" in grade.check_confinement(Open(), wish._replace(trust=True))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (None, "answers run in bubblewrap, which is not installed: sudo apt install bubblewrap"),
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "setting up uid map: Permission denied"),
        ("exit 0", "bubblewrap does not work here: it says nothing. It has to be"),
    ],
)
def test_without_bubblewrap_it_refuses_in_one_sentence(tmp_path, program, told):
    (tmp_path / "bin").mkdir()
    if program is not None:
        (tmp_path / "bin" / "bwrap").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "bin" / "bwrap").chmod(0o755)
    hand_in(tmp_path / "in" / "ada" / BOOK, answered({"ex02/clock": CLOCK}))
    said = run(tmp_path / "in", "--out", tmp_path / "out", ends=2, PATH=str(tmp_path / "bin"))
    assert told in said
    assert "--in podman" in said
    assert "Traceback" not in said
    assert not (tmp_path / "out" / "journal.jsonl").exists()


def test_a_user_who_is_not_root_grades_as_well():
    if os.geteuid() != 0:
        pytest.skip("all other tests run so")
    python = for_all("gpipe_edu.reference")
    if python is None:
        pytest.skip("no Python of this version here is there for all users, with the libraries")
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_nobody_") as folder:
        place = Path(folder) / "in"
        hand_in(place / "right" / BOOK, answered({"ex02/clock": CLOCK}))
        for name in ("changes what it finds", "takes files away from all it can find", "calls home"):
            hand_in(place / name / BOOK, answered({"ex02/clock": HOSTILE[name]}))
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        before = digests(place)
        done = subprocess.run(
            [python, "-m", "gpipe_edu", "grade", "in", "--tasks", "ex02/clock"],
            **{"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": folder, "timeout": 250},
            env=for_nobody(HOME=folder),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = {student: state for (student, _), state in states(Path(folder) / "marks").items()}
        assert found.pop("right") == ("passed", "2")
        assert set(found.values()) == {("wrong", "0")}
        assert digests(place) == before


def test_right_answers_pass_in_a_sandbox_and_side_by_side_none_is_called_endless(tmp_path):
    """Four of one task at once on however few CPUs: on the clock each takes several times as long as alone.

    Of all other notebooks a third is judged daily; test_bank.py judges each answer, without a sandbox.
    """
    others = sorted(path for path in (Path(ROOT) / "solutions").glob("exercise_*.py") if "05" not in path.stem)
    for path in [*third(others), Path("exercise_05_wrapper.py")]:
        hand_in(tmp_path / "in" / "ada" / f"{path.stem}.ipynb", solved(path.stem))
    for number in range(3):
        book = solved("exercise_05_wrapper")
        cell = answer_cell(book, "ex05/wrapper")
        cell["source"] = cell["source"].replace("(nn.Module):", f"(nn.Module):\n    number = {number}\n", 1)
        assert f"number = {number}" in cell["source"]
        hand_in(tmp_path / "in" / f"s{number}" / "exercise_05_wrapper.ipynb", book)
    run(tmp_path / "in", "--out", tmp_path / "marks", "--jobs", "4")
    found = states(tmp_path / "marks")
    assert {state for (student, _), (state, _) in found.items() if student == "ada"} == {"passed"}
    assert {mark for (_, task), mark in found.items() if task == "ex05/wrapper"} == {("passed", "6")}


def test_where_pytorch_is_not_what_needs_it_has_no_mark_and_the_rest_has_its_own(tmp_path):
    for student in "ada", "bob":
        book = solved("exercise_13_ring")
        for key in "ex13/ring", "ex13/zero1":  # else equal answers are judged once
            answer_cell(book, key)["source"] += f"\n\n{find_exercise(key).function}.whose = {student!r}"
        hand_in(tmp_path / "in" / student / "exercise_13_ring.ipynb", book)
        hand_in(tmp_path / "in" / student / "exercise_01_splitting.ipynb", solved("exercise_01_splitting"))
    code = f"import sys; sys.modules['torch'] = None; sys.path.append({ROOT!r}); {WORK}"
    without = grade.Workplace(SANDBOX, (sys.executable, "-P", "-c", code))
    wish, told = grade.Wish(grade.tasks_of("01,13"), place=without), []
    graded = grade.grade(submissions.find(tmp_path / "in"), tmp_path / "out", wish, told.append)
    assert not graded.complete
    for row in graded.marks.values():
        assert (row["ex01/splitting"].state, row["ex01/splitting"].points) == ("passed", 3.0)
        for key in "ex13/ring", "ex13/zero1":
            why = f'{key} needs PyTorch, which is not here: python -m pip install "gpipe_edu[torch]"'
            assert (row[key].state, row[key].points, row[key].why) == ("not judged", None, why)
            assert told.count(f"Not judged: {why}.") == 1, "once for the class"
    assert b"ex13" not in (tmp_path / "out" / "journal.jsonl").read_bytes(), "which would keep it for good"


def test_a_reader_that_ends_is_no_full_disk(tmp_path):
    hand_in(tmp_path / "in" / "ada" / BOOK, answered({"ex02/clock": CLOCK}))
    command = [sys.executable, "-m", "gpipe_edu", "grade", tmp_path / "in", "--out", tmp_path / "out", "--tasks", "02"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env={**os.environ, "PYTHONPATH": ROOT}) as grader:
        grader.stdout.readline()
        grader.stdout.close()  # as `| head -1` does
        assert grader.stderr.read() == b""
    assert grader.returncode == 0
    assert states(tmp_path / "out")["ada", "ex02/clock"] == ("passed", "2")
