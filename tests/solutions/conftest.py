"""Each test has a learner's file of its own, and the judge's own errors are seen."""

import pytest

from gpipe_edu.judge import judging


@pytest.fixture(autouse=True)
def _home(home):
    return home


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """An error of the judge's own is no verdict."""
    monkeypatch.setattr(judging, "STRICT", True)
