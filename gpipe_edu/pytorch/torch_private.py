"""PyTorch's private names that the engine uses."""

from typing import Any

import torch

DISABLED_TORCH_FUNCTION: Any = torch._C._disabled_torch_function_impl
