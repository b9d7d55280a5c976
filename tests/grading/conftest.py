"""An error of our own is seen, and not taken for a student's."""

import pytest

from gpipe_edu.course import submitted_notebook


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """In this process. A test that wants to see how errors are refused switches it off."""
    monkeypatch.setattr(submitted_notebook, "STRICT", True)
