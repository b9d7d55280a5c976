"""Processes that the tests of a file share, each of which has all libraries at its start."""

import pytest
import torch
from packaging.version import Version

from gpipe_edu.distributed import LocalGroup

# Which the rest of the package runs on, and several processes refuse in words.
collect_ignore_glob = ["*"] if Version(torch.__version__) < Version("2.12") else []


@pytest.fixture(scope="module")
def group(preloaded_python):
    with LocalGroup() as found:
        yield found
