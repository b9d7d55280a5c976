"""Exercises, and what judges the answers: a process that can do no harm is asked from outside, in plain data.

`exercise.py` finds the exercises, each a folder in `tasks/`; every check is written with `case.py`, `judging.py` makes
a report of it, in a process that `worker.py` forks for it. `pool.py` has the workers, one for `check` and several for a
class. `learner_process.py` asks the learner's process, with limits on time, memory and output; that process holds only
`guest/` and the `perform*.py` of the tasks. `findings.py` is what is said of an answer. In a browser, which has no
processes, `same_process.py` takes their place: the same verdicts, but a loop inside a C function ends only with the
kernel, and `os._exit` ends that. Those who import `solutions/` fool only themselves, so `check` does not forbid it.
"""
