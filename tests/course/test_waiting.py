"""What is said while a check runs: in a notebook after a few seconds, in a terminal at once, and what it says is so."""

import os
import re
import threading

import nbformat
import pytest

from gpipe_edu.course import waiting
from gpipe_edu.course.notebook import frontend
from gpipe_edu.judge.exercise import find_exercise
from tests import kernels
from tests.processes import until

PROCESSES = find_exercise("ex10/processes")


class Notebook:
    """What `frontend.current` gives in a notebook; `line` is what its line says, None before there is one."""

    line = None

    def open_line(self, words):
        self.write(words)
        return self.write

    def write(self, words):
        self.line = words


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    monkeypatch.setattr(frontend, "_given", [found])
    monkeypatch.setattr(waiting, "AFTER", 0)
    monkeypatch.setattr(waiting, "_EVERY", 0.01)
    return found


@pytest.mark.parametrize("busy", [False, True])
def test_it_says_which_case_runs_and_whether_others_keep_the_machine_busy(monkeypatch, busy):
    load = 2 * os.cpu_count() + (1 if busy else 0)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0, 0))
    told = waiting.Waiting(PROCESSES)
    first = r"ex10/processes, \d+ s so far" + ", this machine is busy" * busy
    assert re.fullmatch(f"{first}: starting a process for your answer", str(told))
    told.tell(3, "3 processes, gpipe")
    assert re.fullmatch(f"{first}: case 3 of {PROCESSES.cases}, 3 processes, gpipe", str(told))
    told.tell(PROCESSES.cases + 2, "")
    assert str(told).endswith(f": case {PROCESSES.cases + 2} of {PROCESSES.cases + 2}")


def test_in_a_notebook_the_line_follows_the_cases_and_ends_with_the_verdict(notebook):
    with waiting.in_a_notebook(PROCESSES) as tell:
        until(lambda: notebook.line and "starting a process" in notebook.line)
        tell(2, "2 processes, 1f1b")
        until(lambda: "case 2 of" in notebook.line)
        tell(0, "")
        ended = notebook.line
        assert re.fullmatch(r"ex10/processes: checked in \d+ s", ended)
    assert notebook.line == ended
    assert not [thread for thread in threading.enumerate() if thread.name == "what a check waits for"]


def test_the_line_ends_also_with_an_error(notebook):
    def breaks():
        with waiting.in_a_notebook(PROCESSES):
            until(lambda: notebook.line)
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        breaks()
    assert notebook.line.startswith("ex10/processes: checked in")


def test_a_quick_check_shows_no_line_and_a_script_none_at_all(notebook, monkeypatch):
    monkeypatch.setattr(waiting, "AFTER", 1)
    looked = []
    monkeypatch.setattr(waiting.Waiting, "seconds", property(lambda self: looked.append(self) or 0.5))
    with waiting.in_a_notebook(PROCESSES) as tell:
        tell(1, "")
        until(lambda: len(looked) > 2)
    assert notebook.line is None
    monkeypatch.setattr(waiting, "AFTER", 0)
    monkeypatch.setattr(frontend, "_given", [])
    with waiting.in_a_notebook(PROCESSES) as tell:
        tell(1, "")
    assert notebook.line is None


def test_without_threads_the_line_is_written_as_cases_begin(notebook, monkeypatch):
    monkeypatch.setattr(waiting, "_THREADS", False)
    with waiting.in_a_notebook(PROCESSES) as tell:
        assert notebook.line is None
        tell(1, "two")
        assert "case 1 of" in notebook.line


@pytest.mark.slow
def test_a_check_in_a_notebook_says_what_it_waits_for():
    source = (
        "from gpipe_edu.course import check, waiting\nwaiting.AFTER = 0\n"
        "import time\ndef split(batch, M):\n    time.sleep(3)\n    return [batch]\n"
        "try:\n    check('ex01/splitting', split)\nexcept AssertionError:\n    pass"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    kernels.client(notebook).execute()
    line, report = (output.data["text/plain"] for output in notebook.cells[0].outputs)
    assert re.fullmatch(r"ex01/splitting: checked in \d+ s", line)
    assert report.startswith("ex01/splitting: not yet")
