"""Each test has a learner's file of its own."""

import pytest

from gpipe_edu import store


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "learner"
    monkeypatch.setenv(store.HOME, str(folder))
    return folder
