"""PyTorch's private names that this engine uses, in one place, so that a release that changes them is noticed.

A name that begins with an underscore may be gone in the next release. Without one of `NEEDED` the engine would give
other numbers, so it is not imported, and says which releases it knows. Without one of `OPTIONAL` all that is right
still works: what is refused today would pass, or a message would be PyTorch's own. They are looked up when this file
is imported, and other files ask here: `torch_private.profiler_enabled()`.

Not listed are the attributes that modules and tensors have had for years, such as `_parameters` and `_version`, and
what is documented despite its name, such as `torch._dynamo.graph_break`. `cluster/torch_private.py` has those that
several processes need.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import torch
from torch.autograd import forward_ad, profiler
from torch.nn.utils import parametrize

TESTED: Final = ("2.11", "2.12", "2.13")
"""Releases of PyTorch on which this ran with gradients equal to those of one device."""

NEEDED: Final = {
    "_C._push_on_torch_dispatch_stack": "a stage's own random numbers",
    "_C._pop_torch_dispatch_stack": "a stage's own random numbers",
    "utils._python_dispatch.TorchDispatchMode": "a stage's own random numbers",
    "utils._python_dispatch._get_current_dispatch_mode_stack": "to see what watches your thread",
    "overrides._get_current_function_mode_stack": "your thread's modes in the stages",
    "overrides._push_mode": "your thread's modes in the stages",
    "overrides._pop_mode": "your thread's modes in the stages",
    "utils._device.DeviceContext": "your thread's default device in the stages",
    "_C._len_torch_function_stack": "your thread's default device in the stages",
    "_C._autograd._profiler_enabled": "to see what watches your thread",
    "_C._autograd._top_saved_tensors_default_hooks": "your saved-tensor hooks in the stages",
    "_C._current_graph_task_id": "a pipe in a backward",
    "_C._FunctionBase": "a backward in two halves",
    "autograd.graph._engine_run_backward": "every backward",
    "nn.modules.batchnorm._BatchNorm": "running statistics",
    "nn.modules.batchnorm._NormBase": "running statistics",
    "nn.modules.dropout._DropoutNd": "to know the layers that draw",
    "Tensor._make_subclass": "a stage's own weights",
}
"""What the engine can't do without, and what it needs that for."""

OPTIONAL: Final = {
    "_C._get_dispatch_mode": "to refuse a FakeTensorMode",
    "_C._TorchDispatchModeKey.FAKE": "to refuse a FakeTensorMode",
    "_C._get_tracing_state": "to refuse torch.jit.trace",
    "_C._functorch.peek_interpreter_stack": "to refuse grad, vmap and jvp of torch.func",
    "_C._functorch.is_legacy_batchedtensor": "to refuse is_grads_batched=True",
    "autograd.forward_ad._current_level": "to refuse forward-mode differentiation",
    "nn.utils.parametrize._cache_enabled": "to refuse parametrize.cached()",
    "autograd.profiler._is_profiler_enabled": "to name ops in a profile",
    "_C._disabled_torch_function_impl": "to say that the backward of a step's loss has run",
}
"""What the engine needs only to say or refuse more."""


def _find(path: str) -> Any:
    found: Any = torch
    for name in path.split("."):
        if isinstance(found, ModuleType) and not hasattr(found, name):
            with suppress(ImportError):
                import_module(f"{found.__name__}.{name}")
        found = getattr(found, name, None)
    return found


def changed(what: str, lacking: Iterable[str], tested: Iterable[str], instead: str) -> ImportError:
    """The error for a release of PyTorch that lacks names of `what`. instead: what else one may do."""
    return ImportError(
        f"PyTorch {torch.__version__} has changed what {what}: {', '.join(lacking)}. Tested are {', '.join(tested)}; "
        f"take one of these, or {instead}."
    )


def check() -> None:
    """Raises ImportError, naming what is gone, if this PyTorch can't run the engine."""
    lacking = [f"torch.{path} ({use})" for path, use in NEEDED.items() if _find(path) is None]
    if lacking:
        raise changed("a pipe needs of its private names", lacking, TESTED, "the NumPy engine, gpipe_edu.reference")


check()

push_dispatch_mode = _find("_C._push_on_torch_dispatch_stack")
pop_dispatch_mode = _find("_C._pop_torch_dispatch_stack")
TorchDispatchMode = _find("utils._python_dispatch.TorchDispatchMode")
dispatch_modes = _find("utils._python_dispatch._get_current_dispatch_mode_stack")
function_modes = _find("overrides._get_current_function_mode_stack")
push_function_mode = _find("overrides._push_mode")
pop_function_mode = _find("overrides._pop_mode")
DeviceContext = _find("utils._device.DeviceContext")
count_function_modes = _find("_C._len_torch_function_stack")
profiler_enabled = _find("_C._autograd._profiler_enabled")
saved_tensor_hooks = _find("_C._autograd._top_saved_tensors_default_hooks")
graph_task = _find("_C._current_graph_task_id")
FunctionNode = _find("_C._FunctionBase")
run_backward = _find("autograd.graph._engine_run_backward")
BatchNorm = _find("nn.modules.batchnorm._BatchNorm")
NormWithMeans = _find("nn.modules.batchnorm._NormBase")
Dropout = _find("nn.modules.dropout._DropoutNd")
make_subclass = _find("Tensor._make_subclass")

disabled_torch_function = _find("_C._disabled_torch_function_impl")
_dispatch_mode = _find("_C._get_dispatch_mode")
_FAKE = _find("_C._TorchDispatchModeKey.FAKE")
_tracing_state = _find("_C._get_tracing_state")
_transforms = _find("_C._functorch.peek_interpreter_stack")
_is_batched = _find("_C._functorch.is_legacy_batchedtensor")


def fakes() -> bool:
    """Whether a FakeTensorMode is on."""
    return _dispatch_mode is not None and _FAKE is not None and _dispatch_mode(_FAKE) is not None


def traces() -> bool:
    """Whether torch.jit.trace is recording."""
    return _tracing_state is not None and _tracing_state() is not None


def transforms() -> bool:
    """Whether a transform of torch.func is on."""
    return _transforms is not None and _transforms() is not None


def differentiates_forward() -> bool:
    """Whether this is inside a level of forward-mode differentiation."""
    return bool(getattr(forward_ad, "_current_level", -1) >= 0)


def profiles() -> bool:
    """Whether a profiler of PyTorch's is on, of this thread or of all."""
    return bool(getattr(profiler, "_is_profiler_enabled", False))


def caches_parametrizations() -> bool:
    """Whether this is inside parametrize.cached()."""
    return bool(getattr(parametrize, "_cache_enabled", False))


def is_batched(gradient: torch.Tensor) -> bool:
    """Whether it is many gradients at once, as is_grads_batched=True brings them."""
    return _is_batched is not None and bool(_is_batched(gradient))
