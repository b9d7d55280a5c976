"""What the README and the other pages claim is true: links, commands, the picture, the code."""

import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest

import gpipe_edu as ge
from gpipe_edu.judge.exercise import all_exercises

from .reference.equality import assert_same_grads
from .solutions.bank import everything

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/*.md")))]


def test_the_picture_is_what_the_package_draws_today():
    drawn = ge.simulate(ge.gpipe(4, 8)).to_svg()
    assert (ROOT / "docs/pictures/gpipe.svg").read_text(encoding="utf-8") == drawn


def test_the_code_in_the_readme_runs_and_keeps_its_promise():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 2
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert_same_grads(names["result"].grads, names["grads"])


def test_the_targets_of_make_that_are_named_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        for target in re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", (ROOT / page).read_text(encoding="utf-8"), re.M):
            assert re.search(rf"^{''.join(target)}:", makefile, re.M), target


@pytest.mark.parametrize("page", PAGES)
def test_pytorch_for_cpus_comes_first_where_a_page_installs_it(page):
    """PyPI's for Linux brings gigabytes of CUDA, which few readers have asked for."""
    commands = re.findall(r"pip install (.*)", (ROOT / page).read_text(encoding="utf-8"))
    for_cpus = [i for i, command in enumerate(commands) if "download.pytorch.org/whl/cpu" in command]
    any_torch = [i for i, command in enumerate(commands) if re.search(r"\btorch\b|-r requirements", command)]
    assert any_torch[:1] == for_cpus[:1]


def test_the_course_map_has_every_lesson_with_its_minutes():
    rows = dict(re.findall(r"\| \[[^\]]+\]\((notebooks/[^)]+)\) \| (\d+) \|", (ROOT / "README.md").read_text("utf-8")))
    lessons = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert list(rows) == [str(path.relative_to(ROOT)) for path in lessons]
    for path in lessons:
        promised = re.search(r"(\d+) minutes", nbformat.read(path, as_version=4).cells[0].source)[1]
        assert rows[str(path.relative_to(ROOT))] == promised, path.name


def test_the_table_of_exercises_says_what_stands_on_top_of_each():
    rows = re.findall(
        r"^\| \[(\d\d) [^\]]+\]\(exercises/([^)]+)\.ipynb\) \| (\d\d) \| (\d) \| (\d+) \|",
        (ROOT / "README.md").read_text("utf-8"),
        re.M,
    )
    masters = sorted((ROOT / "solutions").glob("exercise_*.py"))
    assert [name for _, name, *_ in rows] == [path.stem for path in masters]
    for path, (number, _, *figures) in zip(masters, rows, strict=True):
        head = path.read_text(encoding="utf-8").split("# %%")[1]
        difficulty, minutes = re.search(r"\*\*Difficulty\*\* (\d) of 3\. \*\*Time\*\* (\d+) minutes", head).groups()
        lesson = re.search(r"notebooks/(\d\d)_", head)[1]
        assert path.stem.startswith(f"exercise_{number}_")
        assert figures == [lesson, difficulty, minutes], path.name


def test_the_kill_table_has_every_answer_of_the_bank():
    """That they all get the right verdict is what tests/solutions is for."""
    counted = Counter((entry.key, bool(entry.slip)) for entry in everything())
    found = re.findall(
        r"^\| (ex\d\d/\S+) \| (\d+) / (\d+) \| (\d+) / (\d+) \|$", (ROOT / "README.md").read_text("utf-8"), re.M
    )
    assert {key for key, *_ in found} == set(all_exercises())
    for key, *numbers in found:
        assert list(map(int, numbers)) == [counted[key, True]] * 2 + [counted[key, False]] * 2, key
