"""Each test has a learner's file of its own, and the judge's own errors are seen."""

import pytest

from gpipe_edu import store
from gpipe_edu.course import judging


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "learner"
    monkeypatch.setenv(store.HOME, str(folder))
    return folder


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """An error of the judge's own is no verdict."""
    monkeypatch.setattr(judging, "STRICT", True)
