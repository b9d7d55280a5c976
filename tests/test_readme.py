"""What the README and the other pages claim is true: links, commands, the picture, the code."""

import re
from pathlib import Path

import nbformat
import pytest
import torch
from typer.testing import CliRunner

import gpipe_edu as ge
from gpipe_edu.cli import app
from gpipe_edu.view.text import render_text

from .solutions import table
from .solutions.bank import everything

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COURSE = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/*.md"))),
]


def test_the_picture_is_what_the_package_draws_today():
    drawn = ge.simulate(ge.gpipe(4, 8)).to_svg()
    assert (ROOT / "docs/pictures/gpipe.svg").read_text(encoding="utf-8") == drawn


def test_the_code_in_the_readme_runs_and_keeps_its_promise():
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert len(blocks) >= 2
    names: dict = {}
    for block in blocks:
        exec(block, names)
    pipe, x, y = names["pipe"], names["x"], names["y"]
    found = [weight.grad.clone() for weight in pipe.parameters()]
    pipe.zero_grad()
    plain = torch.nn.Sequential(*pipe.children())
    torch.nn.CrossEntropyLoss()(plain(x), y).backward()
    for ours, weight in zip(found, plain.parameters(), strict=True):
        torch.testing.assert_close(ours, weight.grad)
    assert pipe.timeline.devices == 2


def test_the_schedule_that_hangs_hangs_for_that_reason():
    lines = re.search(r"```text\n(.*?)\n```", README, re.DOTALL)[1].splitlines()
    rows, words = zip(*(re.split(r"\s{3,}", line) for line in lines), strict=True)
    with pytest.raises(ge.ScheduleError) as refused:
        ge.Schedule.parse("\n".join(rows)).check()
    assert " ".join(str(refused.value).split()) == " ".join(words)


def test_the_run_that_is_opened_is_shown_as_it_is_and_with_those_words():
    run = ge.load(ROOT / "tests/timeline/opened/files/kineto_cpu_slow_rank_2")
    chart, words = re.findall(r"```text\n(.*?)\n```", README, re.DOTALL)[1].split("\n\n")
    assert set(chart.splitlines()) <= set(render_text(run, width=60).splitlines())
    found = str(ge.diagnose(run))
    assert (words.split(), words.count("\n- ")) == (found.split(), found.count("\n- ")) != ([], 0)


def test_each_way_in_can_be_pasted(tmp_path, monkeypatch):
    """In a clone, with no word to be filled in."""
    ways = re.findall(r"^\| \*\*[\w ]+\*\* \| (.*?) \| ", README, re.MULTILINE)
    commands = [command for way in ways for command in re.findall(r"`([^`]+)`", way)]
    assert [command.split()[0].rpartition("/")[2] for command in commands] == [
        *("make", "gpipe-edu", "make", "gpipe-edu", "gpipe-edu", "gpipe-edu"),
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hand-ins").mkdir()
    for command in commands:
        assert not set("<>$&;") & set(command), command
        program, *words = command.split()
        if program != "make":  # whose targets the next test looks for
            done = CliRunner().invoke(app, words, input="")
            assert "Usage" not in done.output, done.output
            assert done.exit_code in (0, 1), done.output


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
    rows = dict(re.findall(r"\| \[[^\]]+\]\(\.\./(notebooks/[^)]+)\) \| (\d+) \|", COURSE))
    lessons = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    assert list(rows) == [str(path.relative_to(ROOT)) for path in lessons]
    for path in lessons:
        promised = re.search(r"(\d+) minutes", nbformat.read(path, as_version=4).cells[0].source)[1]
        assert rows[str(path.relative_to(ROOT))] == promised, path.name


def test_each_lesson_has_a_line_in_the_readme_which_is_no_longer_than_a_page_or_two():
    lines = re.findall(r"^- \[(\d\d) ([^\]]+)\]\((notebooks/[^)]+)\): \S.*$", README, re.MULTILINE)
    rows = re.findall(r"^\| \[(\d\d) ([^\]]+)\]\(\.\./(notebooks/[^)]+)\)", COURSE, re.MULTILINE)
    assert lines == rows != []
    words = re.sub(r"```.*?```|<picture>.*?</picture>", "", README, flags=re.DOTALL).split()
    assert len(words) <= 930
    assert "docs/course.md#exercises" in README


def test_the_table_of_exercises_says_what_stands_on_top_of_each():
    rows = re.findall(
        r"^\| \[(\d\d) [^\]]+\]\(\.\./exercises/([^)]+)\.ipynb\) \| (\d\d) \| (\d) \| (\d+) \|",
        COURSE,
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


def test_the_bank_is_as_large_as_is_said():
    """That all answers get the right verdict is what tests/solutions is for."""
    wrong, right = (sum(bool(entry.slip) is kind for entry in everything()) for kind in (True, False))
    assert f"of {wrong:,} wrong answers" in README
    assert f"of {right} right ones" in README
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "python -m tests.solutions.table writes it"
