"""Work that is tracked is done once, in order, and a notebook shows one line that ends with all of it."""

import nbformat
from nbclient import NotebookClient

from gpipe_edu.course import track


def test_outside_of_a_notebook_it_only_gives_the_items(capsys):
    assert list(track(range(3), "steps")) == [0, 1, 2]
    assert capsys.readouterr().out == ""


def test_a_notebook_shows_one_line_that_is_written_over():
    source = (
        "import time\nfrom gpipe_edu.course import track\nseen = []\n"
        "for item in track([3, 1, 2], 'steps'):\n    seen.append(item)\n    time.sleep(0.3)\nprint(seen)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    line, printed = notebook.cells[0].outputs
    assert line.data["text/plain"] == "steps: 3 of 3, 1 s"
    assert printed.text == "[3, 1, 2]\n"
