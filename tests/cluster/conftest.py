"""Processes that the tests of a file share, each of which has all libraries at its start."""

import pytest

from gpipe_edu.distributed import Crew


@pytest.fixture(scope="module")
def crew(preloaded_python):
    with Crew() as found:
        yield found
