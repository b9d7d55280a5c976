"""Each test has a learner's file of its own, and the judge's own errors are seen."""

import sys

import pytest

from gpipe_edu.exercises import judging
from gpipe_edu.process.child import fresh

from .warm import Warm


@pytest.fixture(autouse=True)
def _home(home):
    return home


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """An error of the judge's own is no verdict."""
    monkeypatch.setattr(judging, "STRICT", True)


@pytest.fixture(scope="session")
def warm_process():
    """The one that judgements are forked from."""
    warm = Warm()
    yield warm
    warm.close()


@pytest.fixture
def start(request):
    """How answers get their processes: such as need not load everything anew, where there is a fork."""
    return request.getfixturevalue("warm_process").start if sys.platform == "linux" else fresh
