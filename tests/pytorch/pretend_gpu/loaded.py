"""What every forked process starts with; what is slow to load and needed anyway, too."""

import pytest  # noqa: F401
import torch.fx.experimental.symbolic_shapes  # noqa: F401  # the first backward loads it

from . import cuda

cuda.install()
cuda.let_in()
