"""Exercises, and what judges an answer: asked from outside, answered inside where it can do no harm, in plain data.

`exercise.py` finds the exercises, each a folder in `tasks/`; `case.py` is what every check is written in, `judging.py`
makes a report of it, in a process that `worker.py` forks for it. `pool.py` has the workers, one for `check` and several
for a class. `learner_process.py` asks the learner's process, with limits on time, memory and output; all that is in
there is `guest/`, and the `perform*.py` of the tasks. `findings.py` is what is said of an answer. In a browser, which
has no processes, `same_process.py` takes their place: the same verdicts, but a loop inside a C function or `os._exit`
ends only with the kernel. Those who import `solutions/` fool only themselves, so `check` does not forbid it.
"""
