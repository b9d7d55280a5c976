"""The wheel carries the course. It is built as for a release, installed apart, and used from an empty folder.

`.ci/wheel` does the same, and more, in an environment that has nothing else.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import gpipe_edu
from tests.processes import PATIENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist, and a wheel made from it, of what git knows."""
    pytest.importorskip("build", reason="this test builds the wheel: pip install -r requirements-dev.txt")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this is no git checkout, so what belongs to the course is not known")
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.splitlines()):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    made = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "-o", out, source],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel(built):
    [found] = built.glob("*.whl")
    return found


@pytest.fixture
def installed(wheel, tmp_path):
    """`installed(code)`: what Python prints, in an empty folder, with the wheel in front of this clone."""
    place, folder = tmp_path / "site", tmp_path / "empty"
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)

    def run(*arguments, at="."):
        environment = os.environ | {"PYTHONPATH": str(place), "GPIPE_EDU_HOME": str(tmp_path / "home")}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder / at,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    run.site, run.folder = place / "gpipe_edu", folder
    return run


FORMS = {"notebooks": ".ipynb", "exercises": ".ipynb", "solutions": ".py", "docs": ".md", "lectures": ".toml"}
COPY = "from gpipe_edu.course.commands.set_up import *; print(*report_copies(workspace.copy(WORK), WORK), sep='\\n')"


def test_both_are_what_an_index_takes_and_the_wheel_is_small(built, wheel):
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built.iterdir()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("PASSED") == 2
    assert wheel.stat().st_size < 2_000_000


def test_it_carries_lessons_exercises_pages_and_lectures_and_no_test(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for folder, ending in FORMS.items():
            files = sorted((ROOT / folder).glob(f"*{ending}"))
            assert files
            for path in files:
                if path.is_file():
                    assert archive.read(f"gpipe_edu/carried/{folder}/{path.name}") == path.read_bytes()
    assert not [name for name in names if name.startswith("tests") or "/bank/" in name or "capstone_report" in name]


def test_lab_copies_the_course_and_an_upgrade_leaves_what_was_changed(installed):
    assert installed("-c", COPY).stdout == "The course was copied into gpipe-course/: work there, it is yours.\n"
    mine = installed.folder / "gpipe-course/notebooks/02_splitting.ipynb"
    mine.write_text("my work")
    newer = installed.site / "carried/notebooks"
    (newer / "02_splitting.ipynb").write_text("{}")
    (newer / "03_scheduling.ipynb").write_text("{}")
    (newer / "99_new.ipynb").write_text("{}")
    told = installed("-c", COPY).stdout
    assert "gpipe-course/: 1 new file, 1 brought up to date." in told
    assert (
        "A new version of a file you have changed is beside it: gpipe-course/notebooks/02_splitting.new.ipynb" in told
    )
    assert mine.read_text() == "my work"
    assert (mine.parent / "03_scheduling.ipynb").read_text() == "{}"
    assert (mine.parent / "99_new.ipynb").exists()


def test_an_exercise_is_found_checked_shown_and_begun_anew_where_one_stands(installed):
    installed("-c", COPY)
    notebook = installed.folder / "gpipe-course/exercises/exercise_02_clock.ipynb"
    found = "from gpipe_edu.course.building import build; print(build.exercise('exercise_02_clock').resolve())"
    for at in (".", "gpipe-course", "gpipe-course/exercises"):
        assert installed("-c", found, at=at).stdout.strip() == str(notebook)
    own = installed.site / "carried/exercises" / notebook.name
    notebook.unlink()
    own.write_text(own.read_text() + "\n")
    before = own.read_bytes()
    installed("-m", "gpipe_edu", "reset", "ex02", at="gpipe-course")
    assert notebook.is_file(), "what was deleted in the copy comes back into it"
    assert own.read_bytes() == before
    text = json.loads(notebook.read_text())
    text["cells"][0]["source"] = ["my own words"]
    notebook.write_text(json.dumps(text))
    told = installed("-m", "gpipe_edu", "reset", "ex02/clock", at="gpipe-course")
    assert "is as new. Your work is in exercise_02_clock." in told.stdout, told.stderr
    assert "my own words" not in notebook.read_text()
    shown = installed("-c", "from gpipe_edu.course import solution; solution('ex02/clock', give_up=True)").stdout
    assert "def clock" in shown


def test_where_no_copy_is_nothing_is_checked_and_the_package_s_own_files_stay(installed):
    (installed.folder / "elsewhere").mkdir()
    before = {path: path.read_bytes() for path in (installed.site / "carried/exercises").iterdir()}
    advice = (
        "no copy of the course is here: go into yours, or make one, which will be gpipe-course/, with `gpipe-edu copy`"
    )
    for command in ("check", "watch"):
        told = installed("-m", "gpipe_edu", command, "ex01", at="elsewhere")
        assert told.stderr == f"error: {advice}; --notebook names a file elsewhere\n"
    told = installed("-m", "gpipe_edu", "reset", "ex01", at="elsewhere")
    assert told.stdout == f"Nothing was changed: {advice}.\n".replace("`", "")
    assert {path: path.read_bytes() for path in (installed.site / "carried/exercises").iterdir()} == before


def test_in_a_copy_no_copy_is_made(installed):
    installed("-c", COPY)
    for at in ("gpipe-course", "gpipe-course/notebooks"):
        told = installed("-m", "gpipe_edu", "copy", at=at)
        assert told.stdout == f"Begin with {installed.folder / 'gpipe-course/notebooks/00_start_here.ipynb'}.\n"
    assert not list(installed.folder.glob("gpipe-course/**/gpipe-course"))


def test_what_needs_a_clone_says_so(installed):
    for command in (["build"], ["kit", "kit.zip"], ["gradescope", "zip.zip"]):
        told = installed("-m", "gpipe_edu", *command)
        assert told.returncode != 0
        assert "this needs a clone of the course's repository" in " ".join(told.stderr.split()), told.stderr
        assert list(installed.folder.iterdir()) == []


def test_the_wheel_and_the_changes_speak_of_one_release():
    assert version("gpipe_edu") == gpipe_edu.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(gpipe_edu.__version__)}\b", changes, re.MULTILINE)
