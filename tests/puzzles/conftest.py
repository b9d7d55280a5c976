"""No test touches the progress of whoever runs it."""

import pytest

from gpipe_edu.base import store


@pytest.fixture(autouse=True)
def progress_file(home):
    home.mkdir()
    return store.path()
