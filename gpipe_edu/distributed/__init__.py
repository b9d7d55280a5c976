"""A function of a notebook as several processes that send each other tensors with `torch.distributed` (gloo).

`local_group.py` starts the processes, listens to them and stops them, `rank.py` is one of them, `recorder.py` notes its
sends, receives and ops in a `diary.py`. `deadlocks.py` reads all diaries together and says which process waits for
which, so that a deadlock is named at once instead of timing out. `ring.py` gives a process its two neighbours in a
ring. In the end every process is stopped, even if the function hangs.
"""

from .diary import ProcessError
from .local_group import LocalGroup, run_processes
from .ring import ring_links
from .training import TrainingResult, train_processes

__all__ = ["LocalGroup", "ProcessError", "TrainingResult", "ring_links", "run_processes", "train_processes"]
