"""Each test has a learner's file of its own, and the judge's own errors are seen."""

import sys

import pytest

from gpipe_edu.exercises import judging
from gpipe_edu.process.child import fresh

from .judged import NUMPY
from .warm import Warm


@pytest.fixture(autouse=True)
def _home(home):
    return home


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """An error of the judge's own is no verdict."""
    monkeypatch.setattr(judging, "STRICT", True)


@pytest.fixture(scope="session")
def start():
    """How the answers of a task get their processes: such as need not load everything anew, where there is a fork.

    Forks of a process that has loaded PyTorch take twice as long, so there is one without.
    """
    warm = {}

    def of(key):
        modules = () if key in NUMPY else ("torch._dynamo",)  # which an optimizer loads when it is made
        if modules not in warm:
            warm[modules] = Warm(*modules)
        return warm[modules].start

    yield of if sys.platform == "linux" else lambda key: fresh
    for one in warm.values():
        one.close()
