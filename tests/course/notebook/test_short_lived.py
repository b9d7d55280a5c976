"""Where a machine is deleted after the session, its learner is told before the first answer; elsewhere nobody is."""

import nbformat
import pytest

from gpipe_edu.base import store
from gpipe_edu.course import progress
from gpipe_edu.course.notebook import short_lived
from tests import kernels

COLAB, KAGGLE = "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"
DELETED = "answers and progress last as long as this session"


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No folder named, no host, and no Drive yet."""
    for name in (store.HOME, COLAB, KAGGLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(store, "_DRIVE", tmp_path / "MyDrive")


def test_on_one_s_own_machine_nothing_is_said_and_lessons_are_linked():
    assert short_lived.warning() == ""
    assert "session" not in str(progress())
    assert "](../notebooks/00_start_here.ipynb)" in progress()._repr_markdown_()


@pytest.mark.parametrize(("variable", "host"), [(COLAB, "Colab"), (KAGGLE, "Kaggle")])
def test_a_machine_that_is_deleted_says_so_and_links_to_no_notebook_beside(monkeypatch, variable, host):
    monkeypatch.setenv(variable, "x")
    for text in (short_lived.warning(), str(progress()), progress()._repr_markdown_()):
        assert DELETED in text
        assert f"{host} deletes" in text
    assert ".ipynb)" not in progress()._repr_markdown_()


def test_a_folder_that_is_named_or_a_mounted_drive_keeps_them(monkeypatch, tmp_path):
    monkeypatch.setenv(COLAB, "x")
    (tmp_path / "MyDrive").mkdir()
    assert store.path() == tmp_path / "MyDrive" / "gpipe_edu" / "progress.json"
    assert short_lived.warning() == ""
    monkeypatch.delenv(COLAB)
    monkeypatch.setenv(KAGGLE, "x")
    assert store.path() == tmp_path / "data" / "gpipe_edu" / "progress.json", "a Drive is Colab's"
    monkeypatch.setenv(store.HOME, str(tmp_path / "kept"))
    assert short_lived.warning() == ""


def test_it_is_told_by_the_first_cell_that_imports_the_course(monkeypatch):
    monkeypatch.setenv(KAGGLE, "x")
    code = ("from gpipe_edu.course import predict", "from gpipe_edu.course import progress")
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, code)))
    kernels.client(notebook).execute()
    first, second = (cell.outputs for cell in notebook.cells)
    assert DELETED in first[0].data["text/markdown"]
    assert second == []
