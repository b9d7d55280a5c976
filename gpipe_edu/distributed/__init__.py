"""A function of a notebook as several processes that send each other tensors with `torch.distributed` (gloo).

Whatever the function does, every process is stopped in the end, and two that wait for each other are told apart from
one that is slow.
"""

from .crew import Crew, run_processes
from .failure import ProcessError
from .training import Trained, train_processes

__all__ = ["Crew", "ProcessError", "Trained", "run_processes", "train_processes"]
