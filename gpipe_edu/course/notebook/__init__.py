"""Behaviour in a notebook: how messages, long work, silent cells and unwritten stubs are shown.

`frontend.py` knows where things are shown. Long work reports progress where a cell asks for it (`long_work.py`). In any
cell that has been silent for 2.5 seconds a line counts the seconds (`silent_cells.py`) and is removed before it can be
saved. This begins with the cell after the one that imports `gpipe_edu.course`; `lab` offers a kernel that does so at
startup, because a lesson's first cell loads PyTorch before anything of ours.
"""
