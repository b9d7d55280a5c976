"""Whatever goes wrong with one student's files is told that student by name, and is nobody else's matter."""

import json
import os
import re
import zipfile
from html import unescape

import pytest

from gpipe_edu.course import submitted_notebook
from gpipe_edu.judge.findings import Chart, Finding, Report
from gpipe_edu.process import distrusted_files
from gpipe_edu.teaching.grading import feedback_pages, file_listing, grade, submissions
from gpipe_edu.teaching.grading.marks import mark

from .classroom import CLOCK, answered, code, hand_in, needs_sandbox, run, states, table
from .classroom import notebook as released

BOOK = "exercise_02_clock.ipynb"

LONG = "\U0001d4d0" * 63
"""A name of as many bytes as a disk takes, without any ending."""


def with_cells(*texts, answer=CLOCK):
    """A notebook with this answer to the clock, and these cells before all others."""
    book = answered({"ex02/clock": answer})
    book["cells"][:0] = [code(text) for text in texts]
    return book


def damaged(text):
    """An archive of a notebook that is not as it was when it was packed."""
    data = bytearray(text)
    data[50] ^= 0xFF
    return bytes(data)


def sources_of_every_kind():
    book = with_cells(answer=CLOCK.splitlines(keepends=True))
    others = [3, None, {"a": 1}, ["x = 1\n", 3, None], "", [], True, "\x00", [["x"]]]
    book["cells"][:0] = [{**code(""), "source": source, "metadata": {"nbgrader": 3}} for source in others]
    book["cells"][:0] = [3, None, [], {"cell_type": ["code"], "source": "x = 1"}, {"cell_type": "code"}]
    return book


RIGHT = {
    "is right": with_cells(),
    "ends lines as old Macs do": with_cells(
        "import os\rimport sys", answer=f"size = 1\r\rdef helper(x):\r    return x\r{CLOCK}\r".replace("\n", "\r")
    ),
    "ends lines in all ways": with_cells("import os\r\nimport sys\rx = 1\n\ry = 2\r\n"),
    "has signs that end lines elsewhere": with_cells(
        "x = '\x0b\x1c\x1d\x1e\x85\u2028\u2029'\n\x0cy = 2  # \x0b \u2028", answer=f"# \x85 \u2029 \x1c\n\x0c{CLOCK}"
    ),
    "has half a pair in a magic": with_cells("%%ba\ud800sh\nls", "%ti\ud800me x", "!ls \udfff\nx = 1"),
    "has half a pair in a text": with_cells("x = '\ud800'  # \udc80", answer=f"# \ud83d\n{CLOCK}"),
    "has sources of every kind": sources_of_every_kind(),
    "has many empty lines": with_cells("\n" * 400_000, " " * 50_000 + "x\nif"),
}
"""What can be judged rightly, is."""

WRONG = {
    "raises half a pair": 'def clock(K, M):\n    raise ValueError("half a pair: \\ud800")',
    "returns half a pair": 'def clock(K, M):\n    return "half a pair: \\ud800"',
    "returns a huge number": "def clock(K, M):\n    return [[(10 ** 5000, 10 ** 5000)]]",
    "nests what it returns": "def clock(K, M):\n    x = []\n    for _ in range(3000):\n        x = [x]\n    return x",
}

REFUSED = {
    "wrote no JSON": (b"this is no notebook", "exercise_02_clock.ipynb is no notebook: it is not JSON"),
    "wrote no UTF-8": (b'{"cells": ["\xff\xfe"]}', "exercise_02_clock.ipynb is no notebook: it is no text in UTF-8"),
    "wrote half of UTF-16": (
        b"\xff\xfe{\x00\x00\xd8",
        "exercise_02_clock.ipynb is no notebook: it is no text in UTF-8",
    ),
    "wrote zeros": (bytes(5000), "exercise_02_clock.ipynb is no notebook: it is not JSON"),
    "nested it too deeply": (b'{"cells": ' + b"[" * 100_000, "exercise_02_clock.ipynb is no notebook: it is not JSON"),
    "wrote a huge number": (
        b'{"cells": ' + b"1" * 5000 + b"}",
        "exercise_02_clock.ipynb is no notebook: it is not JSON",
    ),
    "has cells that are none": (b'{"worksheets": [{"cells": 3}], "cells": 3}', "there are no cells in it"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The hand-ins of a class in which nearly everybody's are a mess."""
    place = tmp_path_factory.mktemp("class") / "in"
    for name, book in RIGHT.items():
        hand_in(place / name / BOOK, book)
    hand_in(place / os.fsdecode(b"has a name \xff of bytes") / BOOK, RIGHT["is right"])
    hand_in(place / LONG / BOOK, RIGHT["is right"])
    for name, text in WRONG.items():
        hand_in(place / name / BOOK, answered({"ex02/clock": text}))
    for name, (data, _) in REFUSED.items():
        hand_in(place / name / BOOK, "").write_bytes(data)
    for name in ("gave a pipe", "gave a packed pipe", "gave a folder", "gave a damaged archive", "packed no archive"):
        (place / name).mkdir()
    os.mkfifo(place / "gave a pipe" / BOOK)
    os.mkfifo(place / "gave a packed pipe" / "work.zip")
    (place / "gave a folder" / BOOK).mkdir()
    (place / "packed no archive" / "work.zip").write_bytes(b"PK\x03\x04 and nothing else")
    path = place / "gave a damaged archive" / "work.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(BOOK, json.dumps(RIGHT["is right"]))
    path.write_bytes(damaged(path.read_bytes()))
    path = place / "gave an archive in a folder of its name" / "work.zip"
    hand_in(path / BOOK, RIGHT["is right"])
    return place


@pytest.fixture(scope="module")
def out(place, tmp_path_factory):
    """The marks of that class."""
    out = tmp_path_factory.mktemp("out")
    run(place, "--out", out, "--tasks", "ex02/clock", "--jobs", "2")
    return out


def whys(out):
    return {row["student"]: row["why"] for row in table(out / "answers.csv")}


def pages_of(out):
    """What each student reads, by name."""
    texts = [path.read_text(encoding="utf-8") for path in (out / "feedback").iterdir()]
    return {unescape(re.search("<h1>(.*)</h1>", text)[1]): unescape(text) for text in texts}


@pytest.mark.slow
@needs_sandbox
class TestAClass:
    @pytest.mark.parametrize(
        "name",
        [
            *RIGHT,
            r"has a name \xff of bytes",
            pytest.param(LONG, id="a long name"),
            "gave an archive in a folder of its name",
        ],
    )
    def test_what_is_right_has_full_marks(self, out, name):
        assert states(out)[name, "ex02/clock"] == ("passed", "2")

    @pytest.mark.parametrize("name", WRONG)
    def test_what_is_wrong_is_told_so(self, out, name):
        assert states(out)[name, "ex02/clock"] == ("wrong", "0")

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            *((name, why) for name, (_, why) in REFUSED.items()),
            ("gave a pipe", f"{BOOK} is no regular file, but a link, a folder, a pipe or a device"),
            ("gave a packed pipe", "work.zip is no regular file, but a link, a folder, a pipe or a device"),
            ("gave a folder", f"{BOOK} is a folder"),
            ("gave a damaged archive", f"{BOOK} can't be read: "),
            ("packed no archive", "work.zip is no zip archive: "),
        ],
    )
    def test_what_can_not_be_read_is_refused_by_name(self, out, name, why):
        assert states(out)[name, "ex02/clock"] == ("refused", "0")
        assert why in whys(out)[name]
        assert why in pages_of(out)[name]

    def test_everybody_has_a_row_and_a_page_everywhere(self, out, place):
        names = set(pages_of(out))
        assert len(names) == len(list(place.iterdir()))
        assert {row["student"] for row in table(out / "marks.csv")} == names
        assert set(json.loads((out / "marks.json").read_text(encoding="utf-8"))["students"]) == names
        assert "By task" in (out / "class.html").read_text(encoding="utf-8")

    def test_what_has_no_bytes_stands_escaped_where_it_is_read(self, out):
        read = pages_of(out)
        assert r"a cell of %%ba\ud800sh is no Python" in read["has half a pair in a magic"]
        assert r"ValueError: half a pair: \ud800" in read["raises half a pair"]
        assert r"half a pair: \ud800" in (out / "class.html").read_text(encoding="utf-8")
        notes = {row["student"]: row["notes"] for row in table(out / "answers.csv")}
        assert r"%%ba\ud800sh" in notes["has half a pair in a magic"]

    def test_once_more_nothing_is_judged(self, out, place):
        assert "0 new answers" in run(place, "--out", out, "--tasks", "ex02/clock")

    @pytest.mark.parametrize("name", ["raises half a pair", "has half a pair in a magic"])
    def test_a_terminal_without_such_letters_shows_them_escaped(self, place, name):
        said = run("--one", place / name / BOOK, "--tasks", "ex02/clock", PYTHONIOENCODING="ascii")
        assert r"\ud800" in said


def graded(place, tmp_path):
    """The class, in this process; nothing in it is to be judged."""
    wish = grade.Wish(("ex02/clock", "ex02/f-then-b"))
    return grade.grade(submissions.find(place), tmp_path / "out", wish, lambda words: None)


@pytest.fixture
def two(tmp_path):
    """Two students with the same file."""
    for name in ("ada", "bob"):
        book = released("exercise_02_clock")
        book["cells"].append(code(f"# by {name}"))
        hand_in(tmp_path / "in" / name / BOOK, book)
    return tmp_path / "in"


def fail_for_bob(monkeypatch, where, error):
    whole = getattr(submissions, where)

    def fails(*given):
        if "bob" in repr(given):
            raise error
        return whole(*given)

    monkeypatch.setattr(submissions, where, fails)


@pytest.mark.parametrize(
    "error", [KeyError("x"), IndexError("out of range"), MemoryError(), RecursionError("too deep")]
)
@pytest.mark.parametrize(
    ("where", "what"), [("read", BOOK), ("cut_answer", BOOK), ("newest_first", "what bob has handed in")]
)
def test_an_error_that_nobody_has_thought_of_is_one_student_s(two, tmp_path, monkeypatch, where, what, error):
    fail_for_bob(monkeypatch, where, error)
    with pytest.raises(type(error)):
        graded(two, tmp_path)
    monkeypatch.setattr(submitted_notebook, "STRICT", False)
    marks = graded(two, tmp_path).marks
    assert {mark.state for mark in marks["ada"].values()} == {"unwritten"}
    assert {mark.state for mark in marks["bob"].values()} == {"refused"}
    why = f"{what} can't be dealt with ({type(error).__name__}: {error})"
    assert marks["bob"]["ex02/clock"].why == why
    written = feedback_pages.write(tmp_path / "out", graded(two, tmp_path)).marks
    assert written == marks
    assert why in unescape((tmp_path / "out" / "feedback" / "bob.html").read_text(encoding="utf-8"))


def test_an_interrupt_is_none(two, tmp_path, monkeypatch):
    monkeypatch.setattr(submitted_notebook, "STRICT", False)
    fail_for_bob(monkeypatch, "cut_answer", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        graded(two, tmp_path)


def test_what_can_not_be_told_of_an_answer_is_refused_and_the_others_are_told(two, tmp_path, monkeypatch):
    finding = Finding("loop", "One forward a tick.", charts=(Chart("late", rows=None),))
    report = Report("ex02/clock", "wrong", 1, finding=finding)
    class_ = graded(two, tmp_path)
    class_.marks["bob"]["ex02/clock"] = mark([report])
    class_.marks["ada"]["ex02/clock"] = mark([report._replace(finding=finding._replace(charts=()))])
    monkeypatch.setattr(submitted_notebook, "STRICT", False)
    marks = feedback_pages.write(tmp_path / "out", class_).marks
    assert {name: row["ex02/clock"].state for name, row in marks.items()} == {"ada": "wrong", "bob": "refused"}
    bob, whole = ((tmp_path / "out" / name).read_text(encoding="utf-8") for name in ("feedback/bob.html", "class.html"))
    assert "what was found can&#x27;t be dealt with (AttributeError: " in bob
    assert "1 student in ex02/clock" in whole


def test_what_takes_too_long_to_read_is_one_student_s(two, tmp_path, monkeypatch):
    whole = submissions.cut_answer

    def endless(exercise, cells):
        while "bob" in repr(cells):
            pass
        return whole(exercise, cells)

    monkeypatch.setattr(submissions, "cut_answer", endless)
    monkeypatch.setattr(distrusted_files, "CPU", 1)
    marks = graded(two, tmp_path).marks
    assert {mark.state for mark in marks["ada"].values()} == {"unwritten"}
    assert {mark.state for mark in marks["bob"].values()} == {"refused"}
    assert marks["bob"]["ex02/clock"].why == "what bob has handed in takes more than 1 seconds of computing"


def test_an_archive_that_takes_too_long_to_list_is_one_student_s(two, tmp_path, monkeypatch):
    with zipfile.ZipFile(two / "bob" / "work.zip", "w") as archive:
        archive.writestr("x.py", "")
    whole = file_listing._in_archive

    def endless(data, name, *more):
        while "bob" in str(name):
            pass
        return whole(data, name, *more)

    (two / "bob" / BOOK).unlink()
    monkeypatch.setattr(file_listing, "_in_archive", endless)
    monkeypatch.setattr(distrusted_files, "CPU", 1)
    marks = graded(two, tmp_path).marks
    assert {mark.state for mark in marks["ada"].values()} == {"unwritten"}
    assert marks["bob"]["ex02/clock"].why == "work.zip takes more than 1 seconds of computing"


@pytest.mark.parametrize("where", ["ada", "ada/deep/down", "class/ada", "class/zoe/deep", "zoe"])
def test_one_student_s_flood_of_files_ends_nobody_else_s_class(tmp_path, monkeypatch, where):
    monkeypatch.setattr(file_listing, "_MOST_FILES", 60)
    top = tmp_path / "in" / ("class" if where.startswith("class") else "")
    for name in ("bea", "carl", "dora"):
        hand_in(top / name / BOOK, released("exercise_02_clock"))
        for number in range(5):
            (top / name / f"{number}.txt").write_text("")
    flood = tmp_path / "in" / where
    for folder in (flood / "a", flood / "b", flood):
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(30):
            (folder / f"{number}.txt").write_text("")
    marks = graded(tmp_path / "in", tmp_path).marks
    states = {name: row["ex02/clock"].state for name, row in marks.items()}
    name = where.removeprefix("class/").partition("/")[0]
    assert states == {"bea": "unwritten", "carl": "unwritten", "dora": "unwritten", name: "refused"}
    assert "holds most of over 60 files" in marks[name]["ex02/clock"].why
