"""A function of a notebook as several processes that send each other tensors with `torch.distributed` (gloo).

`crew.py` starts the processes, listens to them and stops them, `rank.py` is one of them, `recorder.py` notes its sends,
receives and ops in a `diary.py`. `waits.py` reads all diaries together and says which process waits for which, so that
a deadlock is named at once instead of timing out. `ring.py` gives a process its two neighbours in a ring. In the end
every process is stopped, even if the function hangs.
"""

from .crew import Crew, run_processes
from .failure import ProcessError
from .ring import ring_links
from .training import TrainingResult, train_processes

__all__ = ["Crew", "ProcessError", "TrainingResult", "ring_links", "run_processes", "train_processes"]
