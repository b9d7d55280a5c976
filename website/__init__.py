"""The course's pages and its lab in a browser, as a folder that any file server can serve: `make site`.

`run_notebooks.py` runs each notebook once in a copy, with `without_kernel.py` in its kernel, which turns widgets into
the pages they save of themselves and questions into ones that answer by themselves; `pages.py` writes the pages,
`lab.py` the lab. Pages open with a double click: plain scripts, no module, no request. Everything between a question
and the next heading is folded until the question is answered; without scripts all is open. Pages and nbval do not share
runs, because a page's run has different widgets. The puzzle and the box for a schedule (`in_page.py`) ask Python in the
page, which is in `live/`: what is there first is written into the page, and what a reader does is kept until Python
answers.

In the lab Python is Pyodide, from npm, with a lock file of our own that lists this package and what it needs, as each
wheel states it. pip downloads what `requirements-lab.txt` names, `fetched.py` what only Pyodide has, and both stop at a
file with a wrong checksum. `bytecode.py` compiles them, in Node.js with that same Pyodide, or a browser would do so at
each start: a ready kernel took 8.8 seconds of processor time before, and takes 3.5 with it, not counting the page.
matplotlib is fetched by the first cell that imports `gpipe_edu.view`; until then timelines show themselves as SVG.
JupyterLite's own cache is off: after a release it serves old files along with new ones.
"""
