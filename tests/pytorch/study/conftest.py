"""What is studied here is measured as a learner would, in float32 and on all cores."""

import pytest


@pytest.fixture(autouse=True)
def float64():
    """In place of the fixture of the engine's tests."""
