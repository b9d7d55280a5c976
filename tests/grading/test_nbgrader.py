"""nbgrader from the source to the exported marks: its own commands, our judge, and nothing of a hand-in is run."""

import csv
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.teaching.grading.marks import points
from gpipe_edu.teaching.platforms import nbgrader_course
from tests.processes import ROOT
from tests.solutions.bank import bank
from tests.solutions.shares import share_of

from .classroom import CLOCK, SEVEN, answered, code, hand_in, needs_sandbox, notebook, of_the_bank, solved

pytestmark = pytest.mark.slow

BOOK = "exercise_02_clock"

needs_nbgrader = [
    pytest.mark.skipif(not importlib.util.find_spec("nbgrader"), reason="nbgrader is not here: .ci/nbgrader"),
    needs_sandbox,
    pytest.mark.timeout(7200),
]


def run(course, *arguments, ends=0):
    """One of nbgrader's commands, as its user types it; what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        capture_output=True,
        text=True,
        timeout=7000,
        env={
            **os.environ,
            "PYTHONPATH": ROOT,
            "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}",  # nbgrader calls alembic
            "JUPYTER_PATH": str(Path(sysconfig.get_path("data", vars={"base": nbconvert_home()})) / "share/jupyter"),
        },
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout + done.stderr


def nbconvert_home():
    """Where the templates of nbconvert are, which may be installed apart from nbgrader."""
    return Path(importlib.util.find_spec("nbconvert").origin).parents[4]


def new_course(place):
    """A course with all exercises, released."""
    command = [sys.executable, "-m", "gpipe_edu", "nbgrader", str(place)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert "nbgrader_config.py: written" in said.stdout
    run(place, "generate_assignment", "*")
    return place


def submit(course, student, book, name=BOOK):
    return hand_in(course / "submitted" / student / name / f"{name}.ipynb", book)


def exported(course):
    """The score of each student in each exercise, as nbgrader exports it."""
    run(course, "export", "--to", "marks.csv")
    with (course / "marks.csv").open(encoding="utf-8", newline="") as file:
        return {(row["student_id"], row["assignment"]): float(row["score"]) for row in csv.DictReader(file)}


def spread(key, whole):
    """Answers of a task's bank: all, or a right one, one for each share and some that are wrong."""
    answers = bank(key)
    if whole:
        return answers
    kinds = ([], [], [])
    for entry in answers:
        kinds[bool(entry.slip) + (entry.slip in find_exercise(key).promises)].append(entry)
    right, wrong, partly = kinds
    return [right[0], *partly[:1], wrong[0], wrong[len(wrong) // 2]]


def hostile(course):
    """By student: what people try where their cells are run, or their metadata believed. All answer `return 7`."""
    ran = f"open({str(course / 'RAN')!r}, 'w').close()\n"
    tricks = {
        "own-check": "def check(*arguments): pass\nimport gpipe_edu.course\ngpipe_edu.course.check = check",
        "atexit": "import atexit, os\natexit.register(os._exit, 0)",
        "exits": "import os\nos._exit(0)",
        "prints-marks": "print('2.0')\n2.0",
        "gradebook": "import sqlite3\nsqlite3.connect('gradebook.db').execute('update grade set auto_score = 99')",
    }
    books = {}
    for name, text in tricks.items():
        book = answered({"ex02/clock": f"{ran}def clock(K, M):\n    return 7"})
        book["cells"].insert(0, code(ran + text))
        books[name] = book
    points_of_his_own = answered({"ex02/clock": SEVEN})
    for cell in points_of_his_own["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if about.get("grade"):
            about["points"], about["schema_version"], cell["source"] = 99, 1, "2.0"
            cell["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "2"}, "metadata": {}}]
    books["own-points"] = points_of_his_own
    return books


@pytest.fixture(scope="module")
def course(tmp_path_factory, request):
    """A course after autograding: a class in which everybody has tried something else."""
    place = new_course(tmp_path_factory.mktemp("course"))
    for name in {one.notebook for one in all_exercises().values()}:
        submit(place, "official", solved(name), name)
        submit(place, "unsolved", notebook(name), name)
    for key, one in all_exercises().items():
        for entry in spread(key, request.config.getoption("whole_class")):
            submit(place, student(entry), of_the_bank(entry), one.notebook)
    for name, book in hostile(place).items():
        submit(place, name, book)
    own = submit(place, "own-package", answered({"ex02/clock": SEVEN})).parent
    for name in ("gpipe_edu/__init__.py", "sitecustomize.py", "nbgrader_config.py"):
        (own / name).parent.mkdir(exist_ok=True)
        (own / name).write_text(f"open({str(place / 'RAN')!r}, 'w').close()\n")
    doubled = answered({"ex02/clock": CLOCK})
    doubled["cells"] += [dict(cell) for cell in doubled["cells"]]
    submit(place, "doubled", doubled)
    lost = answered({"ex02/clock": CLOCK})
    for cell in lost["cells"]:
        cell["metadata"] = {}
    submit(place, "no-metadata", lost)
    submit(place, "no-json", "this is no notebook")
    submit(place, "utf-16", answered({"ex02/clock": CLOCK})).write_bytes(
        json.dumps(answered({"ex02/clock": CLOCK})).encode("utf-16")
    )
    mac = answered({"ex02/clock": CLOCK.replace("\n", "\r")})
    mac["cells"].insert(0, code("import os\rimport sys"))
    submit(place, "mac", mac)
    magic = answered({"ex02/clock": CLOCK})
    magic["cells"].insert(0, code("%%ba\ud800sh\nls"))
    submit(place, "half-a-pair", magic)
    submit(place, "half-a-pair-raised", answered({"ex02/clock": 'def clock(K, M):\n    raise ValueError("\\ud800")'}))
    (submit(place, "no-archive", answered({"ex02/clock": CLOCK})).parent / "work.zip").write_bytes(b"PK")
    run(place, "autograde", "*")
    return place


def student(entry):
    return f"{entry.key}-{entry.name}".replace("/", "-")


class TestACourse:
    pytestmark = needs_nbgrader

    def test_what_is_released_is_the_exercise(self, course):
        for name in {one.notebook for one in all_exercises().values()}:
            released = json.loads((course / "release" / name / f"{name}.ipynb").read_text(encoding="utf-8"))
            texts = ["".join(cell["source"]).rstrip() for cell in released["cells"]]
            assert texts == ["".join(cell["source"]).rstrip() for cell in notebook(name)["cells"]]

    def test_every_mark_is_as_it_is_documented(self, course, request):
        found = exported(course)
        for name in {one.notebook for one in all_exercises().values()}:
            assert found["official", name] == sum(
                points(key) for key, one in all_exercises().items() if one.notebook == name
            )
            assert found["unsolved", name] == 0
        whole = request.config.getoption("whole_class")
        answers = [entry for key in all_exercises() for entry in spread(key, whole)]
        earned = {student(entry): found[student(entry), find_exercise(entry.key).notebook] for entry in answers}
        assert earned == {student(entry): share_of(entry) * points(entry.key) for entry in answers}
        print(f"{len(answers)} answers of the bank have their share")

    @pytest.mark.parametrize("name", ["doubled", "no-metadata", "utf-16", "mac", "half-a-pair", "no-archive"])
    def test_what_would_stop_nbgrader_is_marked(self, course, name):
        assert exported(course)[name, BOOK] == 2

    def test_what_has_no_bytes_is_escaped(self, course):
        assert exported(course)["half-a-pair-raised", BOOK] == 0
        for name, words in {
            "half-a-pair": r"a cell of %%ba\ud800sh is no Python",
            "half-a-pair-raised": r"ValueError: \ud800",
            "no-archive": "work.zip is no zip archive",
        }.items():
            book = json.loads((course / "autograded" / name / BOOK / f"{BOOK}.ipynb").read_text(encoding="utf-8"))
            outputs = [out for cell in book["cells"] for out in cell.get("outputs", [])]
            assert any(words in "".join(out["data"]["text/html"]) for out in outputs)

    def test_whoever_cheats_gets_nothing_and_no_cell_was_run(self, course):
        found = exported(course)
        assert {name: found[name, BOOK] for name in [*hostile(course), "own-package", "no-json"]} == dict.fromkeys(
            [*hostile(course), "own-package", "no-json"], 0
        )
        assert not (course / "RAN").exists()

    def test_the_report_stands_below_the_check_and_in_the_feedback(self, course):
        graded = json.loads((course / "autograded" / "own-points" / BOOK / f"{BOOK}.ipynb").read_text(encoding="utf-8"))
        checks = [c for c in graded["cells"] if c["metadata"].get("nbgrader", {}).get("grade")]
        assert [c["metadata"]["nbgrader"]["points"] for c in checks] == [2, 3]
        assert "".join(checks[0]["outputs"][0]["data"]["text/plain"]) == "wrong, 0 of 2"
        assert "a list of ticks" in "".join(checks[0]["outputs"][0]["data"]["text/html"])
        run(course, "generate_feedback", BOOK, "--student=own-points")
        page = (course / "feedback" / "own-points" / BOOK / f"{BOOK}.html").read_text(encoding="utf-8")
        assert "this is an int" in page
        assert "Score: 0.0 / 5.0" in page

    def test_once_more_nothing_is_judged_and_a_mark_given_by_hand_stays(self, course, tmp_path):
        again = tmp_path / "course"
        shutil.copytree(course, again)
        from nbgrader.api import Gradebook

        with Gradebook(f"sqlite:///{again}/gradebook.db") as gradebook:
            gradebook.find_grade("ex02-clock-check", BOOK, BOOK, "doubled").manual_score = 1.5
            gradebook.db.commit()
        submit(again, "doubled", answered({"ex02/clock": CLOCK}))
        assert "0 new answers to judge" in run(again, "autograde", BOOK, "--force")
        assert exported(again)["doubled", BOOK] == 1.5
        assert exported(again)["no-metadata", BOOK] == 2


def test_what_a_teacher_has_changed_is_left_alone(tmp_path):
    tasks = ["ex02/clock"]
    nbgrader_course.write(tmp_path, tasks)
    config, source = tmp_path / "nbgrader_config.py", tmp_path / "source" / BOOK / f"{BOOK}.ipynb"
    assert "### BEGIN SOLUTION" in source.read_text(encoding="utf-8")
    config.write_text("mine")
    source.write_text(source.read_text(encoding="utf-8").replace("Why care?", "Why bother?"), encoding="utf-8")
    written = nbgrader_course.write(tmp_path, tasks)
    assert (written.kept, [one.what for one in written.sources]) == (True, ["kept"])
    assert config.read_text() == "mine"
    assert "Why bother?" in source.read_text(encoding="utf-8")
