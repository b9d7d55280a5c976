"""Each test has a learner's file of its own."""

import pytest


@pytest.fixture(autouse=True)
def _home(home):
    return home
