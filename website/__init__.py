"""The course's pages and its lab in a browser, as a folder that any server of files can hand out: `make site`.

`executed.py` runs each notebook once in a copy, with `live.py` in its kernel, which turns widgets into the pages they
save of themselves and questions into ones that answer without a kernel; `pages.py` writes the pages, `lab.py` the lab.
Pages work by double click: plain scripts, no module, no request. What follows a question is folded up to the next
heading until one has answered; without scripts all is open. Pages and nbval do not share runs: a page's run has other
widgets.

In the lab Python is Pyodide, with a lock file of our own that lists this package and what it needs; `lab_files.json`
names those files with their sums, `fetched.py` gets them and stops at another sum. `bytecode.py` compiles them, in
Node.js by that same Pyodide, since a browser would at each start: 8.8 seconds of processor to a ready kernel before,
3.5 with it, without the page around it. matplotlib is fetched by the first cell that imports `gpipe_edu.view`; until
then timelines show themselves as SVG. JupyterLite's own cache is off: it hands out old files beside new ones after a
release.
"""
