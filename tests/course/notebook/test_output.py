"""Words reach whoever runs us: rendered in a notebook, plain elsewhere, and code is never touched."""

import nbformat

from gpipe_edu.base import store
from gpipe_edu.course.notebook import output
from tests import kernels

WORDS = "**Once** `x` came.\n\n```python\ny = x ** 2  # **not** bold\n```\n\nThat was `all`."


def test_elsewhere_the_signs_are_gone_and_code_is_as_it_was(capsys):
    output.show(WORDS)
    assert capsys.readouterr().out == "Once x came.\n\ny = x ** 2  # **not** bold\n\nThat was all.\n"
    assert output.plain("Not `10**9`, **nor 2**40**.") == "Not 10**9, nor 2**40."


def test_in_a_notebook_hints_and_solutions_are_rendered(tmp_path, monkeypatch):
    monkeypatch.setenv(store.HOME, str(tmp_path))
    cells = [
        "from gpipe_edu.course import hint, solution\nfrom gpipe_edu.course.notebook import output",
        "hint('ex02/clock')",
        "solution('ex02/clock', give_up=True)",
        f"output.show({WORDS!r})",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    kernels.client(notebook).execute()
    hinted, solved, words = (cell.outputs[0].data for cell in notebook.cells[1:])
    assert "Hint 1 of 3 comes after your own try" in hinted["text/markdown"]
    assert solved["text/markdown"].startswith("```python\ndef clock(")
    assert words == {"text/markdown": WORDS, "text/plain": output.plain(WORDS)}
