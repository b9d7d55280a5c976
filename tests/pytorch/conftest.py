"""For tests in float64 on one BLAS thread, which leave torch as it was; without torch there are none."""

import sys
from importlib.util import find_spec

import pytest

if find_spec("torch") is None:
    collect_ignore_glob = ["*"]


@pytest.fixture(autouse=True)
def float64():
    import torch

    threads, dtype, depth = torch.get_num_threads(), torch.get_default_dtype(), sys.getrecursionlimit()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    yield
    sys.setrecursionlimit(depth)  # which Inductor raises, so that an answer that is too deep would not be
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
