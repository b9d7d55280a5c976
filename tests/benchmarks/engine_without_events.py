"""The pretend GPU under an engine whose values leave a GPU without an event to wait for."""

from tests.pytorch.pretend_gpu import stand_in
from tests.pytorch.pretend_gpu.stand_in import faults

__all__ = ["faults", "start"]


def start() -> None:
    stand_in.start()
    from gpipe_edu.pytorch import place

    place.CudaPlace.pack = lambda self, value: place.wrap(value)
