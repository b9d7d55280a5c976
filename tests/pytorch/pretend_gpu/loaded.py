"""What every forked process starts with."""

import pytest  # noqa: F401  # it is in every test's imports, and slow to load

from . import cuda

cuda.install()
cuda.let_in()
