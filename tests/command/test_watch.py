"""`watch` checks what stands in a notebook file at each save, without running the rest of it."""

import itertools
import json
import os

import pytest
import typer

from gpipe_edu.command import watch
from gpipe_edu.course import progress
from gpipe_edu.course.building import percent_format, places

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
    wanted = watch.find("ex07")

    def look():
        watch.look(wanted, path)
        return capsys.readouterr().out

    assert "not written yet" in look()
    write(path, "import gpipe_edu as ge", STUB.replace("raise NotImplementedError", "return ge.gpipe(K, M).rows"))
    assert "not yet" in look()
    write(path, "%matplotlib inline\nbusy = open('/nowhere')", solution, "while True:\n    print('never run')")
    assert "ex07/1f1b: passed" in look()
    assert progress().solved == 1


def test_a_half_written_cell_is_told_and_does_not_end_it(tmp_path, capsys):
    path = write(tmp_path / "mine.ipynb", "def one_f_one_b(K, M:")
    watch.look(watch.find("ex07"), path)
    out = capsys.readouterr().out
    assert "code cell 1, line 1: " in out
    assert "ex07/1f1b: the cell of one_f_one_b is no Python." in out
    path.write_text("{")
    watch.look(watch.find("ex07"), path)
    assert "mine.ipynb is no notebook: it is not JSON. If it is being written" in capsys.readouterr().out
    write(path, "x = 1")
    watch.look(watch.find("ex07"), path)
    assert "there is no function one_f_one_b in mine.ipynb" in capsys.readouterr().out


def test_every_save_is_one_look(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.ipynb", "x = 1")
    times = itertools.count(10**18, 10**9)
    naps = iter([False, True, False, True])

    def nap(seconds):
        if next(naps):
            os.utime(path, ns=(0, next(times)))

    monkeypatch.setattr(watch.time, "sleep", nap)
    assert sum(1 for _ in itertools.islice(watch.saves(path), 3)) == 3
    assert next(naps, None) is None, "looks came only after saves"


@pytest.mark.parametrize("key", ["ex99", "ex07/other"])
def test_what_does_not_exist_is_told(key):
    with pytest.raises(typer.TyperException, match="there are ex01/splitting"):
        watch.watch(key, None)
