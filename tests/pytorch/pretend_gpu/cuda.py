"""The pretend GPU under the names of torch.cuda, in this process; it must not have run a backward before.

PyTorch calls the device "gpu". Its streams and events are PyTorch's own, for any device; only torch.cuda's way to them
is written anew.
"""

import ctypes
from functools import cache
from types import ModuleType, SimpleNamespace

import torch

from .build import built

DEVICES = 3


@cache
def _library() -> ctypes.CDLL:
    """Loaded when it is first asked for: the process that only collects these tests has no such device."""
    library = ctypes.CDLL(str(built()))
    library.gpu_races.restype = ctypes.c_char_p
    library.gpu_allocated.restype = library.gpu_peak.restype = ctypes.c_size_t
    return library


def races() -> list[str]:
    """Every access to memory that no event or wait orders after the one it depends on."""
    return _library().gpu_races().decode().splitlines()


def work(milliseconds: float) -> None:
    """Keep the current stream of the current device busy for so long, pretended."""
    _library().gpu_work(torch.accelerator.current_device_index(), ctypes.c_double(milliseconds))


def peer_access(there: bool) -> None:
    _library().gpu_peer_access(ctypes.c_bool(there))


def limit(device: int, more: int) -> None:
    """Let device allocate so many bytes more, then none."""
    _library().gpu_limit(device, ctypes.c_size_t(allocated(device) + more))


def breaks() -> None:
    """From now on every launch and wait fails, as after an assert in a kernel."""
    _library().gpu_break()


def allocated(device: int) -> int:
    return _library().gpu_allocated(device)


def _device(device: object = None) -> torch.device:
    if device is None:
        return torch.device("gpu", torch.accelerator.current_device_index())
    found = torch.device("gpu", device) if isinstance(device, int) else torch.device(device)
    return found if found.index is not None else _device()


def current_stream(device: object = None) -> torch.Stream:
    return torch.accelerator.current_stream(_device(device))


class _InStream:
    """What torch.cuda.stream does: the stream is current on its device, and its device is the current one."""

    def __init__(self, stream: torch.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        self._before = current_stream(), current_stream(self._stream.device)
        torch.accelerator.set_stream(self._stream)

    def __exit__(self, *error: object) -> None:
        here, there = self._before
        torch.accelerator.set_stream(there)
        torch.accelerator.set_stream(here)


class _OnDevice:
    """What torch.cuda.device does."""

    def __init__(self, device: object) -> None:
        self._device = _device(device)

    def __enter__(self) -> None:
        self._before = torch.accelerator.current_device_index()
        torch.accelerator.set_device_index(self._device.index)

    def __exit__(self, *error: object) -> None:
        torch.accelerator.set_device_index(self._before)


def install() -> None:
    """From now on torch.cuda is the pretended one."""
    _library().gpu_start()
    torch.utils.rename_privateuse1_backend("gpu")
    module = ModuleType("torch.gpu")
    module.is_available = lambda: True
    module.device_count = lambda: DEVICES
    module.current_device = torch.accelerator.current_device_index
    module.device = _OnDevice
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    torch._register_device_module("gpu", module)
    torch.Tensor.is_cuda = property(lambda tensor: tensor.device.type == "gpu")
    cuda = torch.cuda
    cuda.is_available, cuda.device_count = lambda: True, lambda: DEVICES
    cuda.current_device = torch.accelerator.current_device_index
    cuda.Stream = lambda device=None: torch.Stream(device=_device(device))
    cuda.Event = lambda enable_timing=False: torch.Event("gpu", enable_timing=enable_timing)
    cuda.device, cuda._sleep = _OnDevice, lambda cycles: work(cycles / 2e6)
    cuda.stream, cuda.current_stream = _InStream, current_stream
    cuda.synchronize = lambda device=None: torch.accelerator.synchronize(_device(device))
    cuda.memory_allocated = lambda device=None: allocated(_device(device).index)
    cuda.max_memory_allocated = lambda device=None: _library().gpu_peak(_device(device).index)
    cuda.empty_cache, cuda.get_device_name = lambda: None, lambda device=None: "a pretended GPU"
    cuda.get_device_properties = lambda device=None: SimpleNamespace(total_memory=2**34)
    cuda.reset_peak_memory_stats = lambda device=None: _library().gpu_reset_peak(_device(device).index)


def let_in() -> None:
    """The engine, as it is imported now, takes the pretend GPUs."""
    from gpipe_edu.pytorch import place

    place.GPU = "gpu"
