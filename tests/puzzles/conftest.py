"""No test touches the progress of whoever runs it."""

import pytest

from gpipe_edu import store


@pytest.fixture(autouse=True)
def progress_file(home):
    return store.path()
