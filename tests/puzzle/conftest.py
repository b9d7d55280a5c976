"""No test touches the progress of whoever runs it."""

import pytest

from gpipe_edu.puzzle.progress import VARIABLE


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    path = tmp_path / "puzzle.json"
    monkeypatch.setenv(VARIABLE, str(path))
    return path
