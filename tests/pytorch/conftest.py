"""For tests in float64 on one BLAS thread, which leave torch as it was."""

import pytest


@pytest.fixture
def float64():
    torch = pytest.importorskip("torch", reason="the PyTorch engine needs torch: pip install 'gpipe_edu[torch]'")
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)
