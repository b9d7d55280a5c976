"""Behaviour in a notebook: how messages, long work and unwritten stubs are shown.

`frontend.py` knows where things are shown. Long work reports progress where a cell asks for it (`long_work.py`). A
silent cell has Jupyter's own signs, `[*]` and the kernel's circle, where JupyterLab counts the seconds.
"""
