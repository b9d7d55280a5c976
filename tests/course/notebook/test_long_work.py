"""Work that is tracked is done once, in order, and a notebook shows one line that ends with all of it."""

import re

import nbformat

from gpipe_edu.course import counting, track
from tests import kernels


def in_a_notebook(source):
    """What a cell shows in the end."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    kernels.client(notebook).execute()
    return notebook.cells[0].outputs


def test_outside_of_a_notebook_it_only_gives_the_items(capsys):
    assert list(track(range(3), "steps")) == [0, 1, 2]
    assert capsys.readouterr().out == ""


def test_outside_of_a_notebook_seconds_are_not_counted(capsys):
    with counting("sleeping", about=1):
        pass
    assert capsys.readouterr().out == ""


def test_a_notebook_counts_the_seconds_and_stops_when_the_work_ends_or_fails():
    source = (
        "import time, threading\nfrom gpipe_edu.course import counting\n"
        "try:\n    with counting('sleeping', about=2):\n        time.sleep(1.3)\n        raise OSError('broken')\n"
        "except OSError as error:\n    print(error, sum('count' in thread.name for thread in threading.enumerate()))"
    )
    line, printed = in_a_notebook(source)
    assert re.fullmatch(r"sleeping: \d+ s", line.data["text/plain"])
    assert printed.text == "broken 0\n"


def test_a_notebook_shows_one_line_that_is_written_over():
    source = (
        "import time\nfrom gpipe_edu.course import track\nseen = []\n"
        "for item in track([3, 1, 2], 'steps'):\n    seen.append(item)\n    time.sleep(0.3)\nprint(seen)"
    )
    line, printed = in_a_notebook(source)
    assert re.fullmatch(r"steps: 3 of 3, \d+ s", line.data["text/plain"])
    assert printed.text == "[3, 1, 2]\n"
