"""The kit is the course without its solutions, and nothing in it leads nowhere."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import PurePosixPath

import pytest

from gpipe_edu.cli import main
from gpipe_edu.course.building import build, percent_format
from gpipe_edu.teaching.handouts import kit
from tests.processes import PATIENCE


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kit")
    with pytest.raises(SystemExit) as ended:
        main(["kit", str(folder / "students.zip")])
    assert ended.value.code == 0
    with zipfile.ZipFile(folder / "students.zip") as archive:
        archive.extractall(folder)
    return folder / "gpipe_edu_course"


def test_no_line_of_a_solution_is_in_its_notebooks_and_no_solutions_or_tests(unpacked):
    assert not (unpacked / "solutions").exists()
    assert not (unpacked / "tests").exists()
    text = "".join(path.read_text(encoding="utf-8") for path in (unpacked / "exercises").glob("*.ipynb"))
    for master in build.masters():
        for cell in percent_format.read(master.read_text(encoding="utf-8")):
            for body in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cell.source, re.DOTALL):
                assert body.strip() not in text


def test_every_link_of_its_pages_and_exercises_leads_somewhere(unpacked):
    for page in [*unpacked.glob("*.md"), *unpacked.glob("docs/*.md"), *unpacked.glob("exercises/*.ipynb")]:
        for target in re.findall(r"\]\(([^)#\s\"]+)", page.read_text(encoding="utf-8")):
            if (page.suffix == ".md" and not re.match(r"\w+:", target)) or target.endswith((".ipynb", ".md")):
                assert (page.parent / target).exists(), (page.name, target)


def test_a_link_to_what_is_not_there_keeps_its_words():
    text = "[a](docs/a.md#x) [b](solutions/b.py) [c](https://x.org/c) ![d](docs/d.svg)"
    found = kit.remove_dead_links(text, PurePosixPath("README.md"), {"docs/a.md"})
    assert found == "[a](docs/a.md#x) b (not in this copy) [c](https://x.org/c) ![d](docs/d.svg)"


def test_solution_says_so_and_reset_brings_a_fresh_notebook(unpacked, tmp_path):
    book = unpacked / "exercises" / "exercise_02_clock.ipynb"
    fresh = book.read_bytes()
    book.write_bytes(fresh.replace(b"clock", b"clack"))
    program = "from gpipe_edu.course import reset, solution; solution('ex02/clock', give_up=True); reset('ex02/clock')"
    environment = {**os.environ, "PYTHONPATH": str(unpacked), "GPIPE_EDU_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "not in this copy of the course" in done.stdout
    assert "is as new" in done.stdout
    assert book.read_bytes() == fresh


def test_it_is_the_same_whenever_it_is_written(tmp_path):
    for name in ("a.zip", "b.zip"):
        kit.write(tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
