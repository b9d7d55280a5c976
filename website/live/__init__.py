"""What runs in a reader's browser when a page of the site asks Python: no Jupyter, no other host.

worker.js     Python in a worker of the page: started once, one call after another
host.py       what may be called, with words and plain data in both directions; CPython can call it, too
run_cells.py  runs a notebook's cells: outputs, errors, names
page_widgets.py  what the package's widgets need of anywidget, on traitlets alone
wire.py       messages to the page while it waits for an answer
python.js     the page's half: starts the worker, asks it, keeps the learner's file
puzzle.js     the puzzle's page
box.js        a schedule that one types, judged at each keystroke
"""
