"""The pretend GPU under an engine that changes what arrives in a stage by a part in a hundred million."""

from tests.pytorch.pretend_gpu import stand_in
from tests.pytorch.pretend_gpu.stand_in import faults

__all__ = ["faults", "start"]


def start() -> None:
    stand_in.start()
    from gpipe_edu.pytorch import place

    take = place.CudaPlace._take

    def changed(self, sent, ready):
        there = take(self, sent, ready)
        return (there.detach() * (1 + 1e-8)).requires_grad_(there.requires_grad)

    place.CudaPlace._take = changed
