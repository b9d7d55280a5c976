"""A learner's function, run where it can do no harm: asked from outside, answered inside, in plain data.

`outside.py` is the judge's side, with limits on time, memory and output; `inside.py` the learner's process;
`findings.py` what is said of an answer. In a browser, which has no processes, `same_process.py` takes their place: the
same verdicts, but a loop inside a C function or `os._exit` ends only with the kernel. `hiding.py` takes what would give
an answer away out of reach. Those who import `solutions/` fool only themselves, so `check` does not forbid it.
"""
