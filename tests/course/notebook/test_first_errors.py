"""In a notebook an unwritten function is told in a sentence, a missing name with a line more, the rest as ever."""

import os
import sys

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from gpipe_edu.course.commands import set_up
from gpipe_edu.course.notebook.first_errors import NO_PYTORCH, RUN_ABOVE
from tests import kernels

STUB = "from gpipe_edu.course import check\ndef split(batch, M):\n    raise NotImplementedError"


def error_of(*cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.raises(CellExecutionError):
        kernels.client(notebook).execute()
    [error] = [output for output in notebook.cells[-1].outputs if output.output_type == "error"]
    return error.ename, "\n".join(error.traceback)


def test_a_try_before_the_function_is_written_is_one_sentence():
    name, shown = error_of(STUB, "split([1, 2], 2)")
    assert name == "NotImplementedError"
    assert shown == "split is not written yet. Put your code in the place of `raise NotImplementedError`."


def test_an_error_with_words_of_its_own_keeps_its_traceback():
    name, shown = error_of(STUB.replace("Error", "Error('only for M = 1')"), "split([1, 2], 2)")
    assert name == "NotImplementedError"
    assert "only for M = 1" in shown
    assert "Traceback" in shown


COURSE = "import gpipe_edu.course"


@pytest.mark.parametrize("cell", ["layers", "def use():\n    return layers\nuse()"])
def test_a_name_that_an_earlier_cell_would_have_made_is_told_with_what_to_do(cell):
    name, shown = error_of(COURSE, cell)
    assert name == "NameError"
    assert "name 'layers' is not defined" in shown
    assert shown.endswith(RUN_ABOVE)


@pytest.mark.parametrize("cell", ["import torch", "from gpipe_edu.pytorch import GPipe"])
def test_without_pytorch_a_cell_that_needs_it_says_how_to_get_it(cell):
    name, shown = error_of(COURSE, f"import sys\nsys.modules['torch'] = None\n{cell}")
    assert name == "ModuleNotFoundError"
    assert shown.endswith(NO_PYTORCH)
    assert f'{sys.executable} -m pip install "gpipe_edu[torch]"' in NO_PYTORCH


def test_in_the_lab_the_first_cell_says_so_before_it_imports_anything_of_ours(tmp_path, monkeypatch):
    environment = {"JUPYTER_PATH": os.environ.get("JUPYTER_PATH", "")}
    set_up.offer_kernel(environment, tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", environment["JUPYTER_PATH"])
    name, shown = error_of("import sys\nsys.modules['torch'] = None\nimport torch")
    assert name == "ModuleNotFoundError"
    assert shown.endswith(NO_PYTORCH)


def test_another_module_that_is_missing_is_none_of_ours():
    name, shown = error_of(COURSE, "import no_such_module")
    assert name == "ModuleNotFoundError"
    assert NO_PYTORCH not in shown


def test_a_name_that_a_library_lacks_is_none_of_the_notebook_s():
    raises = "import types\nnames = {}\nexec('def f():\\n    return layers', names)\nnames['f']()"
    name, shown = error_of(COURSE, raises)
    assert name == "NameError"
    assert RUN_ABOVE not in shown
