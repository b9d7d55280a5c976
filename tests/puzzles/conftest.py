"""No test touches the progress of whoever runs it."""

import pytest

from gpipe_edu import store


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    monkeypatch.setenv(store.HOME, str(tmp_path))
    return store.path()
