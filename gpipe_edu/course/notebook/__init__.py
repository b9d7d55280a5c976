"""Behaviour in a notebook: how messages, long work and unwritten stubs are shown.

`frontend.py` knows where things are shown. Long work reports progress where a cell asks for it (`long_work.py`). A cell
that is silent has Jupyter's own signs, `[*]` and the kernel's circle, at which JupyterLab counts the seconds.
"""
