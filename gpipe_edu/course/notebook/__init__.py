"""Manners of a notebook: how words, long work, silent cells and unwritten stubs show themselves.

Long work shows how far it is where a cell asks for it (`long_work.py`), and in any cell that is silent for 2.5 seconds
a line counts them (`silent_cells.py`), taken back before it can be saved. That begins with the cell after the one that
imports `gpipe_edu.course`; `lab` offers a kernel that does so at its start, because a lesson's first cell loads PyTorch
before anything of ours.
"""
