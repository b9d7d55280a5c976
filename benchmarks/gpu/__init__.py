"""Everything about the PyTorch engine that only a GPU can answer, in one command of at most eight minutes.

`run.py` starts each part in a process of its own, with a limit, and writes what is known so far after each. The parts,
in the order of what they decide: `environment`, `equality`, `sleepers`, `speed`, `memory`, `timeline`, `machine`,
`two_gpus`, `lessons`. A part tells what it finds to a `Findings`; `report.py` makes a page of that, and `lines.py` the
line of the README. `tests/benchmarks` rehearses the whole on a GPU that is pretended.

    make gpu, or where PyTorch is there already: python -m benchmarks.gpu
"""
