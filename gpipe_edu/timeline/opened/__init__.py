"""What people bring of a pipeline, opened: orders of ops, and runs that were measured elsewhere.

`load.py` finds out what a file is; `trace_file.py` reads a trace of any size; `op_names.py` knows what pipelines call
their ops; `recording.py` tells from one process's events when each op worked; `steps.py` and `ranks.py` put the steps
of all ranks together, as timelines; `pp_timer.py` reads Megatron's timer; `jobs.py` knows files that describe a job and
no run; `refusals.py` has the words for what a file lacks.
"""

from .load import Opened, load, load_trace, measured_run, open_files, read_profiles

__all__ = ["Opened", "load", "load_trace", "measured_run", "open_files", "read_profiles"]
