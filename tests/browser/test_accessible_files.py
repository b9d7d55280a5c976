"""axe-core finds nothing on the files that a class gets, nor on slides; `tests/website` asks it about the site."""

import subprocess
import sys

import pytest

from gpipe_edu.teaching.handouts import personal
from gpipe_edu.teaching.lecture.outline import read
from gpipe_edu.teaching.lecture.slides import html
from tests.processes import PATIENCE
from tests.website.test_accessibility import RUN
from website.bundle import LIBRARIES

pytestmark = pytest.mark.slow

AXE = LIBRARIES / "axe-core" / "axe.min.js"
WRONG = "def clock(K, M):\n    return [[(m, k) for k in range(K)] for m in range(M)]\n"
BROKEN = "def clock(K, M):\n    return 1 / 0\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("class")
    for name, text in (("ada", WRONG), ("bob", BROKEN), ("eve", "import os\n")):
        (place / "handins" / name).mkdir(parents=True)
        (place / "handins" / name / "exercise_02_clock.py").write_text(text)
    line = ["grade", place / "handins", "--tasks", "02", "--out", place / "marks", "--trust"]
    subprocess.run([sys.executable, "-m", "gpipe_edu", *line], check=True, capture_output=True, timeout=PATIENCE)
    (place / "slides.html").write_text(html(read("03")), encoding="utf-8")
    sheet = personal.sheet("ada", personal.puzzles("secret", "ada", 1))
    (place / "sheet.html").write_text(sheet, encoding="utf-8")
    return place


@pytest.mark.sweep
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["marks/class.html", "marks/feedback/ada.html", "marks/feedback/bob.html", "slides.html", "sheet.html"]
)
def test_axe_finds_nothing(files, open_page, name, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not here: make lint installs it")
    page = open_page(1280, 800, scheme)
    page.add_init_script(path=AXE)
    page.goto((files / name).as_uri())
    assert page.evaluate(RUN) == []
