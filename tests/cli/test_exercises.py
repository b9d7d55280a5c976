"""`watch` checks what stands in a notebook file at each save, without running the rest of it."""

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys

import pytest
import typer

from gpipe_edu.course import progress
from gpipe_edu.course.building import build, percent_format, places
from gpipe_edu.course.commands import exercises

pytestmark = pytest.mark.slow

STUB = "def one_f_one_b(K: int, M: int) -> list:\n    raise NotImplementedError"


def write(path, *cells):
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    path.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": "Text"}, *code]}))
    return path


@pytest.fixture
def solution():
    """The answer to exercise 07 as its master has it, and the imports it needs."""
    cells = percent_format.read((places.ROOT / "solutions/exercise_07_one_f_one_b.py").read_text())
    [source] = [percent_format.solution_of(cell.source) for cell in cells if "### BEGIN SOLUTION" in cell.source]
    return "import gpipe_edu as ge\n" + source


def test_it_goes_from_unwritten_to_wrong_to_passed_as_the_file_is_saved(tmp_path, capsys, home, solution):
    path = write(tmp_path / "mine.ipynb", STUB)
    wanted = exercises.find("ex07")

    def look():
        exercises.look(wanted, path)
        return capsys.readouterr().out

    assert "not written yet" in look()
    write(path, "import gpipe_edu as ge", STUB.replace("raise NotImplementedError", "return ge.gpipe(K, M).rows"))
    assert "not yet" in look()
    write(path, "%matplotlib inline\nbusy = open('/nowhere')", solution, "while True:\n    print('never run')")
    assert "ex07/1f1b: passed" in look()
    assert progress().solved == 1


def test_a_half_written_cell_is_told_and_does_not_end_it(tmp_path, capsys):
    path = write(tmp_path / "mine.ipynb", "def one_f_one_b(K, M:")
    exercises.look(exercises.find("ex07"), path)
    out = capsys.readouterr().out
    assert "code cell 1, line 1: " in out
    assert "ex07/1f1b: the cell of one_f_one_b is no Python." in out
    path.write_text("{")
    exercises.look(exercises.find("ex07"), path)
    assert "mine.ipynb is no notebook: it is not JSON. If it is being written" in capsys.readouterr().out
    write(path, "x = 1")
    exercises.look(exercises.find("ex07"), path)
    assert "there is no function one_f_one_b in mine.ipynb" in capsys.readouterr().out


def test_every_save_is_one_look(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.ipynb", "x = 1")
    times = itertools.count(10**18, 10**9)
    naps = iter([False, True, False, True])

    def nap(seconds):
        if next(naps):
            os.utime(path, ns=(0, next(times)))

    monkeypatch.setattr(exercises.time, "sleep", nap)
    assert sum(1 for _ in itertools.islice(exercises.saves(path), 3)) == 3
    assert next(naps, None) is None, "looks came only after saves"


@pytest.mark.parametrize("key", ["ex99", "ex07/other"])
def test_what_does_not_exist_is_told(key):
    with pytest.raises(typer.TyperException, match="there are ex01/splitting"):
        exercises.watch(key, None)


def test_the_notebook_of_the_folder_one_stands_in_comes_first(tmp_path, monkeypatch):
    one = exercises.find("ex07")[0]
    monkeypatch.chdir(tmp_path)
    assert exercises.notebook_of(one) == build.exercise(one.notebook)
    (tmp_path / "exercises").mkdir()
    below = write(tmp_path / "exercises" / f"{one.notebook}.ipynb", STUB)
    assert exercises.notebook_of(one).resolve() == below
    here = write(tmp_path / f"{one.notebook}.ipynb", STUB)
    assert exercises.notebook_of(one).resolve() == here
    assert exercises.notebook_of(one, below) == below
    with pytest.raises(ValueError, match="--notebook names another"):
        exercises.notebook_of(one, tmp_path / "none.ipynb")


def test_of_a_notebook_and_a_file_of_one_name_the_one_saved_last_is_meant(tmp_path, monkeypatch):
    one = exercises.find("ex07")[0]
    monkeypatch.chdir(tmp_path)
    book, script = write(tmp_path / f"{one.notebook}.ipynb", STUB), tmp_path / f"{one.notebook}.py"
    script.write_text(STUB)
    for newer, older in ((book, script), (script, book)):
        os.utime(older, (1, 1))
        os.utime(newer, (2, 2))
        assert exercises.notebook_of(one).resolve() == newer


def test_a_file_without_an_answer_takes_no_answer_s_place(tmp_path, monkeypatch):
    """As that which `script` has just written beside a notebook that is right."""
    one = exercises.find("ex07")[0]
    monkeypatch.chdir(tmp_path)
    assert exercises.script("ex07") == 0
    script = tmp_path / f"{one.notebook}.py"
    (tmp_path / "exercises").mkdir()
    below = write(tmp_path / "exercises" / f"{one.notebook}.ipynb", "def one_f_one_b(K, M):\n    return []")
    assert exercises.notebook_of(one).resolve() == script
    assert exercises.notebook_of(one, written=True).resolve() == below
    assert exercises.notebook_of(one, script, written=True) == script
    script.write_text(script.read_text().replace("raise NotImplementedError", "return []"))
    assert exercises.notebook_of(one, written=True).resolve() == script


def test_an_exercise_is_done_in_a_python_file(tmp_path, monkeypatch, capsys, home, solution):
    monkeypatch.chdir(tmp_path)
    assert exercises.script("ex07") == 0
    [path] = tmp_path.iterdir()
    text = path.read_text(encoding="utf-8")
    assert capsys.readouterr().out == f"{path.name} is written. Beside it: python -m gpipe_edu watch ex07\n"
    released = json.loads(build.fresh(path.stem))["cells"]
    cells = percent_format.read(text)
    assert [cell.kind for cell in cells] == [cell["cell_type"] for cell in released]
    code = ["".join(cell["source"]) for cell in released if cell["cell_type"] == "code"]
    assert [cell.source for cell in cells if cell.kind == "code"] == code
    assert "SOLUTION" not in text

    assert exercises.check("ex07") == 1
    assert f"Checking {path.name}.\nex07/1f1b: one_f_one_b is not written yet." in capsys.readouterr().out
    [stub] = [one for one in code if "def one_f_one_b" in one]
    path.write_text(text.replace(stub, solution) + "\n# %%\nhalf a line (")
    assert exercises.check("ex07") == 0
    said = capsys.readouterr().out
    assert f"{path.name}, line {len(path.read_text().splitlines())}: " in said
    assert "ex07/1f1b: passed" in said

    with pytest.raises(typer.TyperException, match="is there already, and may have your work in it"):
        exercises.script("ex07")


def test_an_answer_gets_the_same_verdict_in_a_python_file_as_in_a_notebook(tmp_path, monkeypatch, capsys, home):
    monkeypatch.chdir(tmp_path)
    exercises.script("ex01")
    script = tmp_path / "exercise_01_splitting.py"
    text = script.read_text(encoding="utf-8")
    refuses = "    assert len(batch) >= M\n    return np.array_split(batch, M)\n"
    for body, told in (
        (refuses, "which it should accept: when should it refuse?"),
        (f"    batch.samples\n{refuses}", "Your code raised AttributeError on this call. It has to work: "),
    ):
        script.write_text(text.replace("    raise NotImplementedError\n", body), encoding="utf-8")
        code = [cell.source for cell in percent_format.read(script.read_text(encoding="utf-8")) if cell.kind == "code"]
        said = []
        for path in (script, write(tmp_path / "exercise.ipynb", *code)):
            capsys.readouterr()
            assert exercises.check("ex01", path, seed=3) == 1
            said.append(re.sub(r"line \d+", "line", capsys.readouterr().out.partition("\n")[2]))
        assert said[0].replace(script.name, "a file") == re.sub(r"code cell \d+", "a file", said[1])
        assert told in said[0]
        assert f"line in split:  {body.splitlines()[0].strip()}" in said[0]


def test_what_is_wrong_comes_with_commands_and_a_seed_gives_the_same_again(tmp_path, capsys, home, solution):
    wrong = STUB.replace("raise NotImplementedError", "return ge.gpipe(K, M).rows")
    path = write(tmp_path / "mine.ipynb", "import gpipe_edu as ge", wrong)
    assert exercises.check("ex07", path, seed=3) == 1
    first = capsys.readouterr().out
    assert "ex07/1f1b: being judged, about 24 cases." in first
    assert "The same inputs again: python -m gpipe_edu check ex07/1f1b --seed 3." in first
    assert "Stuck? python -m gpipe_edu hint ex07/1f1b has hint 1 of 3." in first
    assert exercises.check("ex07/1f1b", path, seed=3) == 1
    assert capsys.readouterr().out == first
    assert exercises.hint("ex07/1f1b") == 0
    assert "Hint 1 of 3." in capsys.readouterr().out
    exercises.solution("ex07/1f1b")
    assert "python -m gpipe_edu solution ex07/1f1b --give-up" in capsys.readouterr().out
    exercises.solution("ex07/1f1b", give_up=True)
    assert "def one_f_one_b" in capsys.readouterr().out
    write(path, solution)
    assert exercises.check("ex07", path) == 0
    assert "python -m gpipe_edu solution ex07/1f1b." in capsys.readouterr().out


def test_on_a_terminal_the_case_is_told_while_it_is_judged(tmp_path, home, solution):
    path = write(tmp_path / "mine.ipynb", solution)
    ours, theirs = os.openpty()
    arguments = [sys.executable, "-m", "gpipe_edu", "check", "ex07", "--notebook", str(path)]
    with subprocess.Popen(arguments, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(theirs)
        seen = b""
        with contextlib.suppress(OSError):  # which Linux raises at the end
            while piece := os.read(ours, 2**16):
                seen += piece
    os.close(ours)
    assert process.returncode == 0, seen
    # Which case is being judged depends on when the line is written; test_waiting.py has its words.
    assert re.search(rb"ex07/1f1b, \d+ s so far(, this machine is busy)?: (starting a process|case \d+ of 24)", seen)
    assert b"ex07/1f1b: passed" in seen
