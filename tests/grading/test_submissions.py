"""Hand-ins are found however they lie, and what is none is told and passed over."""

import io
import os
import re
import zipfile

import pytest

from gpipe_edu.course.submitted_notebook import LARGEST, Refused
from gpipe_edu.teaching.grading import file_listing
from gpipe_edu.teaching.grading.submissions import books_in, file_name, find, newest_first

BOOK = "exercise_02_clock.ipynb"
EMPTY = ("bob", "carl", "dan", "eve", "fay")


def refusal(file):
    with pytest.raises(Refused) as refused:
        file.read()
    return str(refused.value)


def lay(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("{}")
    return root


@pytest.mark.parametrize(
    ("paths", "layout", "students"),
    [
        (["ada/" + BOOK, "bob/" + BOOK], "a folder for each student", {"ada", "bob"}),
        (["ada/" + BOOK], "a folder for each student", {"ada"}),
        (["ada/week 1/" + BOOK, "bob/" + BOOK], "a folder for each student", {"ada", "bob"}),
        (["submitted/ada/ps1/" + BOOK, "submitted/bob/ps1/" + BOOK], "nbgrader's", {"ada", "bob"}),
        (
            ["Ada L_12_assignsubmission_file/" + BOOK, "Bo_13_assignsubmission_file_/x.ipynb"],
            "Moodle's",
            {"Ada L", "Bo"},
        ),
        (["lovelaceada_1_2_" + BOOK, "bo_LATE_3_4_exercise_02_clock-1.ipynb"], "Canvas'", {"lovelaceada", "bo"}),
        (
            ["Ada L_12_assignsubmission_file_" + BOOK, "Bo_13_assignsubmission_file_x.ipynb"],
            "Moodle's, without folders",
            {"Ada L", "Bo"},
        ),
        (
            [
                "Sheet 1_ada_attempt_2026-11-01-10-00-00_" + BOOK,
                "Sheet 1_ada_attempt_2026-11-02-10-00-00_" + BOOK,
                "Sheet 1_bob_attempt_2026-11-01-10-00-00_x.ipynb",
                "Sheet 1_bob_attempt_2026-11-01-10-00-00.txt",
            ],
            "Blackboard's",
            {"ada", "bob"},
        ),
        (
            [
                "71-17 - Ada de L - Nov 20, 2026 1159 PM/" + BOOK,
                "71-18 - Ada de L - Nov 21, 2026 905 AM/" + BOOK,
                "72-19 - Bo-Ann B- Nov 2, 2026 1200 PM/" + BOOK,
            ],
            "Brightspace's",
            {"Ada de L", "Bo-Ann B"},
        ),
        (
            ["71-17 - Al - Nov 20, 2026 1159 PM - " + BOOK, "72-18 - Al - Nov 21, 2026 905 AM - " + BOOK],
            "Brightspace's",
            {"Al 71", "Al 72"},
        ),
        (["Ada L - " + BOOK, "Bo - " + BOOK], "notebooks in one folder", {"Ada L", "Bo"}),  # Google Classroom's
        (["submission_11/" + BOOK, "submission_12/" + BOOK], "Gradescope's", {"Ada L", "submission_12"}),
        (["exercise_02_clock_ada.ipynb", "bob_exercise_02_clock (1).ipynb"], "notebooks in one folder", {"ada", "bob"}),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_layouts(tmp_path, paths, layout, students, zipped):
    place = lay(tmp_path / "in", *paths)
    if "submission_11" in paths[0]:
        (place / "submission_metadata.yml").write_text(
            "submission_11:\n  :submitters:\n  - :name: Ada L\n    :email: a@b\n"
        )
    if zipped:
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            for path in sorted(place.rglob("*.*")):
                archive.write(path, path.relative_to(place))
        place = tmp_path / "all.zip"
    found = find(place)
    assert found.layout.startswith(layout)
    assert set(found.students) == students
    assert found.notes == []


def test_an_expression_says_who(tmp_path):
    found = find(lay(tmp_path, "a/x-ada.ipynb", "b/x-bob.ipynb", "b/nobody.ipynb"), r"x-(\w+)")
    assert set(found.students) == {"ada", "bob"}
    assert "nobody.ipynb" in found.notes[0]
    for bad, told in (("(", "no regular expression"), ("x", "no group")):
        with pytest.raises(ValueError, match=told):
            find(tmp_path, bad)


def test_solutions_links_and_foreign_files_are_passed_over(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("{}")
    place = lay(tmp_path / "in", "ada/" + BOOK, "solutions/exercise_02_clock.py", "ada/notes.txt")
    os.symlink(secret, place / "ada" / "link.ipynb")
    os.symlink(tmp_path, place / "bob")
    found = find(place)
    assert set(found.students) == {"ada"}
    assert len(found.notes) == 2
    link = next(file for file in found.students["ada"] if file.path.name == "link.ipynb")
    with pytest.raises(Refused, match="link"):
        link.read()


def test_a_notebook_behind_a_dot_is_told_and_the_copies_that_systems_make_are_not(tmp_path):
    copies = (".ipynb_checkpoints/x.ipynb", "._x.ipynb", "~$x.ipynb", ".git/config", ".venv/lib/site.py")
    own = (f".bob/sheet/{BOOK}", f"ada/.week 1/{BOOK}", f"ada/.{BOOK}")
    place = lay(tmp_path / "in", f"ada/{BOOK}", *own, *(f"ada/{copy}" for copy in copies), ".cache/x.txt")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted(path for path in place.rglob("*") if path.is_file()):
            archive.write(path, path.relative_to(place))
        archive.writestr("__MACOSX/ada/._x.ipynb", "")
    for place in (tmp_path / "in", tmp_path / "all.zip"):
        found = find(place)
        assert set(found.students) == {"ada"}
        assert len(found.students["ada"]) == 1
        assert sorted(found.notes) == [
            f"{hidden}: what begins with a dot is passed over; rename it if it is a hand-in"
            for hidden in (".bob", f"ada/.{BOOK}", "ada/.week 1")
        ]


def test_students_whose_names_only_look_alike_are_two_and_no_name_turns_a_line(tmp_path):
    names = ("ada", "ad\u200ba", "\u202eada", "ada\ufe0f", "ada\u3164")
    place = lay(tmp_path / "in", *(f"{name}/{BOOK}" for name in names))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in names:
            archive.writestr(f"{name}/{BOOK}", "{}")
    for place in (tmp_path / "in", tmp_path / "all.zip"):
        found = find(place)
        assert set(found.students) == {"ada", r"ad\u200ba", r"\u202eada", r"ada\ufe0f", r"ada\u3164"}
        assert all(len(files) == 1 for files in found.students.values())


@pytest.mark.parametrize("what", ["nothing", "a file", "empty"])
def test_places_that_hold_nothing(tmp_path, what):
    place = tmp_path / what
    if what == "a file":
        place.write_text("x")
    if what == "empty":
        place.mkdir()
    with pytest.raises(ValueError, match=r"give the folder|must be a folder"):
        find(place)


def test_archives_with_bombs_tricks_and_archives_in_them(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr(BOOK, "{}")
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ada/bomb.ipynb", b" " * (4 * LARGEST))
        archive.writestr("../../evil.ipynb", "{}")
        archive.writestr("/etc/evil.ipynb", "{}")
        archive.writestr("bob/hers.zip", inner.getvalue())
        archive.writestr("carl/broken.zip", b"PK\x03\x04")
        archive.writestr("dan/bomb.zip", b"PK\x03\x04" + b" " * (4 * LARGEST))
        link = zipfile.ZipInfo("ada/link.ipynb")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    found = find(tmp_path / "all.zip")
    assert set(found.students) == {"ada", "bob", "carl", "dan"}
    assert refusal(found.students["dan"][0]) == "dan/bomb.zip unpacks to more than 40 MB, and is not read"
    assert sum("leads out" in note for note in found.notes) == 2
    assert sum("no zip" in note for note in found.notes) == 1
    assert refusal(found.students["carl"][0]).startswith("broken.zip is no zip archive: ")
    bomb, link = sorted(found.students["ada"], key=lambda file: file.path.name)
    assert refusal(bomb) == "ada/bomb.ipynb unpacks to more than 20 MB, and is not read"
    with pytest.raises(Refused, match="link"):
        link.read()
    assert sorted(tmp_path.iterdir()) == [tmp_path / "all.zip"]


def test_the_newest_comes_first_and_of_equals_the_later_version(tmp_path):
    place = lay(tmp_path, "ada/a (1).ipynb", "ada/a.ipynb", "ada/old.ipynb")
    for name, when in (("a (1)", 20), ("a", 20), ("old", 10)):
        os.utime(place / "ada" / f"{name}.ipynb", (when, when))
    names = [file.path.name for file in newest_first(find(place).students["ada"])]
    assert names == ["a (1).ipynb", "a.ipynb", "old.ipynb"]


def test_of_two_attempts_the_one_that_was_sent_last_comes_first(tmp_path):
    names = [f"Sheet 1_ada_attempt_2026-11-{day}-10-00-00_x.ipynb" for day in ("02", "01")]
    for name, time in zip(names, (10, 20), strict=True):  # as files are unpacked
        os.utime(lay(tmp_path, name) / name, (time, time))
    assert [file.path.name for file in newest_first(find(tmp_path).students["ada"])] == names


def test_odd_names(tmp_path):
    names = ["=HYPERLINK()", "ünï cødé", "a'b\"c", "-rf", "x" * 120]
    found = find(lay(tmp_path, *[f"{name}/{BOOK}" for name in names]))
    assert set(found.students) == set(names)


def test_names_of_any_bytes_can_be_written_down(tmp_path):
    try:
        (tmp_path / os.fsdecode(b"bo\xff")).mkdir()
    except OSError:
        pytest.skip("this disk takes no name that is not UTF-8")
    (tmp_path / os.fsdecode(b"bo\xff") / BOOK).write_text("{}")
    (tmp_path / os.fsdecode(b"bo\xfe")).mkdir()
    (tmp_path / os.fsdecode(b"bo\xfe") / BOOK).write_text("{}")
    found = find(tmp_path)
    assert [name.encode() for name in found.students] == [rb"bo\xfe", rb"bo\xff"]
    assert found.students[r"bo\xff"][0].read() == b"{}"


def test_who_has_handed_in_no_notebook_is_there_and_told(tmp_path):
    place = lay(
        tmp_path / "in", f"ada/{BOOK}", "bob/answer.pdf", "people.csv", "carl/.DS_Store", f"dan/solutions/{BOOK}"
    )
    (place / "eve" / "work").mkdir(parents=True)
    zipfile.ZipFile(place / "fay.zip", "w").close()
    found = find(place)
    assert {name: len(files) for name, files in found.students.items()} == {"ada": 1} | dict.fromkeys(EMPTY, 0)
    assert sorted(note for note in found.notes if "solutions" not in note) == [
        "bob: no answer can be in answer.pdf; notebooks and Python files are read",
        *(f"{name}: there is no notebook among the files" for name in EMPTY),
    ]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted(place.rglob("*")):
            archive.write(path, path.relative_to(place))
    assert find(tmp_path / "all.zip").students.keys() == found.students.keys()
    with pytest.raises(ValueError, match="there is no notebook"):
        find(lay(tmp_path / "x", "ada/answer.pdf"))


def test_what_is_handed_in_beside_a_notebook_and_holds_no_answer_is_told_in_a_line_for_each_student(tmp_path):
    beside = [f"ada/{name}" for name in ("Report.PDF", "clock.html", "data.csv", "progress.json", "screen.png")]
    many = [f"bob/page {number}.jpg" for number in range(7)]
    found = find(lay(tmp_path, f"ada/{BOOK}", *beside, f"bob/{BOOK}", *many, f"cy/{BOOK}", f"cy/{BOOK}.txt"))
    assert found.notes == [
        "ada: no answer can be in Report.PDF, clock.html, screen.png; notebooks and Python files are read",
        "bob: no answer can be in page 0.jpg, page 1.jpg, page 2.jpg, page 3.jpg, page 4.jpg, ...; notebooks and "
        "Python files are read",
    ]


@pytest.mark.parametrize("ending", [".IPYNB", ".ipynb.txt", ".ipynb.json", " (1).ipynb.txt", ".PY"])
def test_a_notebook_is_known_as_browsers_and_mail_programs_name_it(tmp_path, ending):
    found = find(lay(tmp_path, f"exercise_02_clock_ada{ending}", "bob_exercise_02_clock.ipynb"))
    assert {name: len(files) for name, files in found.students.items()} == {"ada": 1, "bob": 1}
    assert found.students["ada"][0].version == ("(1)" in ending)


def test_the_folder_of_marks_is_nobody_s(tmp_path):
    place = lay(tmp_path, f"ada/{BOOK}", "marks/marks.csv", "marks/feedback/ada.html")
    assert set(find(place, out=place / "marks").students) == {"ada"}


@pytest.mark.parametrize(
    "paths",
    [
        [f"Ada L_{n}_assignsubmission_{kind}/{BOOK}" for n, kind in ((1, "file"), (1, "onlinetext"), (2, "file"))],
        [f"adal_{n}_{file}_{BOOK}" for n, file in ((1, 7), (1, 8), (2, 9))],
    ],
)
def test_two_people_of_one_name_are_two(tmp_path, paths):
    found = find(lay(tmp_path, *paths)).students
    assert sorted(map(len, found.values())) == [1, 2]
    assert all(name.endswith((" 1", " 2")) for name in found)


def test_of_too_many_notebooks_the_newest_are_read(tmp_path):
    lay(tmp_path, *(f"ada/{number}.ipynb" for number in range(120)), f"bob/{BOOK}")
    os.utime(tmp_path / "ada" / "7.ipynb", (1, 1))
    found = find(tmp_path)
    names = {file.path.name for file in found.students["ada"]}
    assert len(names) == 100
    assert "7.ipynb" not in names
    assert found.notes == ["ada: of 120 notebooks, the newest 100 are read"]


def archive_of(members):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return data.getvalue()


def test_archives_without_end_stop_with_their_student(tmp_path):
    inner = archive_of({BOOK: "{}"})
    for _ in range(4):
        inner = archive_of({f"{number}.zip": inner for number in range(8)} | {BOOK: "{}"})
    lay(tmp_path, f"bob/{BOOK}")
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "all.zip").write_bytes(inner)
    found = find(tmp_path)
    assert sum(not file.shut for file in found.students["ada"]) == 1 + 5
    assert all("is not read" in refusal(file) for file in found.students["ada"] if file.shut)
    assert len(found.students["bob"]) == 1
    assert len(found.notes) == 1 + 5


def test_an_archive_that_is_locked_or_damaged_is_told(tmp_path):
    data = bytearray(archive_of({"hers.zip": archive_of({BOOK: "{}"})}))
    locked = bytearray(data)
    for at in (data.find(b"PK\x03\x04") + 6, data.rfind(b"PK\x01\x02") + 8):
        locked[at] |= 1  # as if it wanted a password
    data[60] ^= 0xFF
    lay(tmp_path, f"ada/{BOOK}")
    for name, content in (("bob", locked), ("carl", data)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "all.zip").write_bytes(content)
    found = find(tmp_path)
    assert set(found.students) == {"ada", "bob", "carl"}
    for name in ("bob", "carl"):
        (file,) = found.students[name]
        assert re.search(r"\.zip (can't be read|is no zip archive): ", refusal(file))
        assert any(refusal(file) in note for note in found.notes)


def test_only_regular_files_are_opened(tmp_path):
    lay(tmp_path, f"ada/{BOOK}", "dora/x.zip/y.txt")
    for name in (f"bob/{BOOK}", "carl/work.zip", "dave/clock.py"):
        (tmp_path / name).parent.mkdir()
        os.mkfifo(tmp_path / name)
    (tmp_path / "eve" / BOOK).mkdir(parents=True)
    os.symlink("/dev/zero", lay(tmp_path, "finn/x.txt") / "finn" / "work.zip")
    found = find(tmp_path).students
    assert {name: len(files) for name, files in found.items()} == {
        "ada": 1, "bob": 1, "carl": 1, "dave": 1, "dora": 0, "eve": 1, "finn": 1,
    }  # fmt: skip
    for name in ("bob", "carl", "dave", "finn"):
        assert "is no regular file" in refusal(found[name][0])
    assert refusal(found["eve"][0]) == f"{BOOK} is a folder"


def test_a_folder_that_may_not_be_read_is_its_student_s_matter(tmp_path, monkeypatch):
    lay(tmp_path, f"ada/{BOOK}", f"bob/{BOOK}", f"carl/more/{BOOK}")
    whole = os.scandir

    def forbids(path):
        if path.name in ("bob", "more"):
            raise PermissionError(13, "Permission denied", path)
        return whole(path)

    monkeypatch.setattr(os, "scandir", forbids)
    found = find(tmp_path).students
    assert set(found) == {"ada", "bob", "carl"}
    assert refusal(found["bob"][0]) == "bob can't be read: Permission denied"
    assert refusal(found["carl"][0]) == "more can't be read: Permission denied"


def test_what_nobody_could_open_changes_nothing_for_the_others(tmp_path):
    lay(tmp_path, "Ada L_12_assignsubmission_file/" + BOOK, "Bo_13_assignsubmission_file_/x.ipynb")
    (tmp_path / "handouts.zip").write_bytes(b"PK")
    found = find(tmp_path)
    assert found.layout.startswith("Moodle's")
    assert set(found.students) == {"Ada L", "Bo"}


def test_a_student_s_own_list_of_names_is_none(tmp_path):
    lists = {
        "submission_11/": "submission_11:\n  - :name: Bo\nsubmission_12:\n  - :name: Ada\n",
        "": "submission_11:\n  - :name: Ada\u2028submission_12:\nsubmission_12:\n  - :name: Bo\n",
    }
    members = {f"{folder}submission_metadata.yml": text for folder, text in lists.items()}
    (tmp_path / "all.zip").write_bytes(
        archive_of({**members, f"submission_11/{BOOK}": "{}", f"submission_12/{BOOK}": "{}"})
    )
    found = find(tmp_path / "all.zip").students
    assert {name: str(files[0].path) for name, files in found.items()} == {
        r"Ada\u2028submission_12:": f"submission_11/{BOOK}",
        "Bo": f"submission_12/{BOOK}",
    }


def test_every_member_of_a_group_has_handed_it_in(tmp_path):
    """The list of submitters ends where the next key begins: a test of the autograder has a name, too."""
    place = lay(tmp_path / "in", f"submission_11/{BOOK}", f"submission_12/{BOOK}")
    (place / "submission_metadata.yml").write_text(
        "submission_11:\n  :submitters:\n  - :name: Ada L\n    :email: a@b\n  - :email: c@d\n    :name: Bo\n"
        "  - :email: e@f\n    :sid: '7'\n  :created_at: 2026-11-02 10:00:00 Z\n  :results:\n    :tests:\n"
        "    - :name: ex02\n"
        "submission_12:\n  :submitters:\n  - :name: Cy\n"
    )
    found = find(place)
    assert set(found.students) == {"Ada L", "Bo", "e@f", "Cy"}
    assert found.students["Ada L"] == found.students["Bo"] == found.students["e@f"] != found.students["Cy"]
    assert found.students["Bo"][0].sent.time is not None


def test_names_that_an_archive_can_have_and_a_disk_can_not(tmp_path):
    members = {
        f"ada/a ({'9' * 5000}).ipynb": "{}",
        f"ada/{BOOK}": "{}",
        "bob/work.zip": archive_of({f"../{BOOK}": "{}"}),
    }
    data = archive_of({**members, "carl/work.zip": not_utf_8(archive_of({"cl\u00f6ck.ipynb": "{}"}))})
    (tmp_path / "all.zip").write_bytes(data)
    found = find(tmp_path / "all.zip").students
    assert [file.version for file in newest_first(found["ada"])] == [0, 0]
    assert "leads out of the archive" in refusal(found["bob"][0])
    assert refusal(found["carl"][0]).startswith("work.zip is no zip archive: 'utf-8' codec")
    assert (
        max(len(file_name(name, set()).encode()) for name in ("\U0001d4d0" * 5000, "x" * 5000, "\ud800" * 5000)) <= 200
    )


def not_utf_8(archive):
    """The same archive, whose names say that they are in UTF-8 and are not."""
    return archive.replace("\u00f6".encode(), b"\xff\xff")


def test_one_student_s_thousands_of_files_are_passed_over(tmp_path):
    lay(tmp_path, f"ada/{BOOK}", f"bob/{BOOK}", *(f"bob/venv/{number}.py" for number in range(20_001)))
    os.utime(tmp_path / "bob" / BOOK, (2**31, 2**31))
    found = find(tmp_path)
    assert {name: len(files) for name, files in found.students.items()} == {"ada": 1, "bob": 100}
    assert newest_first(found.students["bob"])[0].path.name == BOOK


@pytest.mark.parametrize("what", ["a file", "a pipe", "nothing"])
def test_one_student_s_folder_that_is_none_is_refused(tmp_path, what):
    place = tmp_path / "bob"
    if what == "a file":
        place.write_text("x")
    if what == "a pipe":
        os.mkfifo(place)
    (file,) = books_in(place, [])
    assert str(place) in refusal(file)


def test_a_folder_named_like_a_notebook_is_told_and_looked_into_and_a_hidden_link_is_neither(tmp_path):
    lay(tmp_path, f"ada/{BOOK}", f"bob/{BOOK}/{BOOK}", ".old/x")
    (tmp_path / "ada" / ".link").symlink_to(tmp_path / ".old")
    found = find(tmp_path)
    assert {str(file.path) for file in found.students["bob"]} == {f"bob/{BOOK}", f"bob/{BOOK}/{BOOK}"}
    assert found.notes == [f"bob/{BOOK}: {BOOK} is a folder"]


def test_folders_deep_in_folders_end_nobody(tmp_path):
    lay(tmp_path, f"ada/{BOOK}", f"bob/{BOOK}")
    deeper = [str(tmp_path / "bob") + "/d" * depth for depth in range(1, 1101)]  # more than Python may call itself
    for folder in deeper:
        os.mkdir(folder)
    try:
        assert set(find(tmp_path).students) == {"ada", "bob"}
    finally:
        for folder in reversed(deeper):  # pytest, which would tidy up, calls itself, too
            os.rmdir(folder)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_without_a_name_in_an_archive_ends_nobody(tmp_path, zipped):
    """Python cuts a name at its first zero, and then has none to look at the end of."""
    lay(tmp_path, f"ada/{BOOK}")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("qqq", "")
        archive.writestr(f"cy/{BOOK}" if zipped else BOOK, "{}")
    broken = data.getvalue().replace(b"qqq", b"\0qq")
    if zipped:
        (tmp_path / "all.zip").write_bytes(broken)
        found = find(tmp_path / "all.zip")
        assert set(found.students) == {"cy"}
        assert found.notes == ["the archive: a file without a name is passed over"]
    else:
        (tmp_path / "bob").mkdir(exist_ok=True)
        (tmp_path / "bob" / "work.zip").write_bytes(broken)
        found = find(tmp_path)
        assert set(found.students) == {"ada", "bob"}
        assert found.notes == ["work.zip: a file without a name is passed over"]


def test_an_archive_that_grows_without_end_is_not_unpacked(tmp_path):
    lay(tmp_path, f"ada/{BOOK}")
    (tmp_path / "bob").mkdir()
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(tmp_path / "bob" / "work.zip", "w", method) as archive:
            archive.writestr(BOOK, "{}")
        (book,) = find(tmp_path).students["bob"]
        assert refusal(book) == f"{BOOK} is compressed in a way that is not read; zip it in the ordinary way"


def test_one_student_s_archive_changes_nobody_s_name_in_canvas(tmp_path):
    lay(tmp_path, f"ada_1_2_{BOOK}", "ada_1_9_notes-1.ipynb", f"cy_3_4_{BOOK}")
    with zipfile.ZipFile(tmp_path / "bob_5_6_work.zip", "w") as archive:
        archive.writestr(f"folder/{BOOK}", "{}")
    found = find(tmp_path)
    assert found.layout.startswith("Canvas'")
    assert {name: len(files) for name, files in found.students.items()} == {"ada": 2, "bob": 1, "cy": 1}


def test_an_archive_of_too_many_files_loses_no_student_silently(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in ("ada", "bob", "cy"):
            archive.writestr(f"{name}/{BOOK}", "{}")
    monkeypatch.setattr(file_listing, "_MOST_MEMBERS", 1)  # of one student's own archive
    assert set(find(tmp_path / "all.zip").students) == {"ada", "bob", "cy"}
    with zipfile.ZipFile(tmp_path / "flood.zip", "w") as archive:
        for name in ("ada", "bob", *(f"cy/{number}" for number in range(9))):
            archive.writestr(f"class/{name}/{BOOK}", "{}")
    monkeypatch.setattr(file_listing, "_MOST_FILES", 8)
    found = find(tmp_path / "flood.zip")
    assert set(found.students) == {"ada", "bob", "cy"}
    assert "class/cy: class/cy holds most of over 8 files" in found.notes
    monkeypatch.setattr(file_listing, "_MOST_FILES", 2)
    with pytest.raises(ValueError, match="more than 2 files in the archive; give the folder of one exercise sheet"):
        find(tmp_path / "all.zip")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada L_12_assignsubmission_file_work.zip", "Bo_13_assignsubmission_file_" + BOOK),
        ("Sheet 1_Ada L_attempt_2026-11-01-10-00-00_work.zip", "Sheet 1_Bo_attempt_2026-11-01-10-00-00_" + BOOK),
        ("Ada L_1_2_work.zip", "Bo_3_4_" + BOOK),
    ],
)
def test_an_archive_among_the_files_of_a_platform_is_its_student_s(tmp_path, one, other):
    lay(tmp_path, other)
    with zipfile.ZipFile(tmp_path / one, "w") as archive:
        archive.writestr(f"my work/{BOOK}", "{}")
    assert {name: len(files) for name, files in find(tmp_path).students.items()} == {"Ada L": 1, "Bo": 1}


def test_the_last_attempt_on_blackboard_counts(tmp_path):
    lay(tmp_path, *(f"Sheet 1_ada_attempt_2026-11-{day}-10-00-00_{BOOK}" for day in ("09", "10", "08")))
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    assert newest_first(find(tmp_path).students["ada"])[0].path.name.startswith("Sheet 1_ada_attempt_2026-11-10")


def test_the_last_of_a_student_s_folders_from_brightspace_counts(tmp_path):
    times = ["Nov 9, 2026 905 AM", "Nov 10, 2026 1201 AM", "Nov 8, 2026 1159 PM"]
    lay(tmp_path, *(f"71-{number} - Ada L - {time}/{BOOK}" for number, time in enumerate(times)))
    [(student, files)] = find(tmp_path).students.items()
    assert (student, len(files)) == ("Ada L", 3)
    assert "Nov 10" in str(newest_first(files)[0].path)
