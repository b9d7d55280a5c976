"""What runs in a reader's browser when a page of the site asks Python: no Jupyter, no other host.

worker.js          Python in a worker of the page: started once, one call after another
host.py            what may be called, with words and plain data in both directions; CPython can call it, too
wire.py            messages to the page while it waits for an answer
run_cells.py       runs a notebook's cells: outputs, errors, names
page_widgets.py    what the package's widgets need of anywidget, on traitlets alone
lazy_modules.py    modules that are fetched only when a cell imports them
typed_schedule.py  what the box's schedule does, with the reader's own costs and beside another one
python.js          the page's half: starts the worker, asks it, keeps the learner's file
store.js           that file in the browser, shared with the lab; merge.js: what two tabs have changed
cells.js           a notebook's cells: editor.js for the code, outputs.js, widgets.js and model.js for what comes of it
questions.js       predictions, answered by the page itself
puzzle.js          the puzzle's page
box.js             a schedule that one types, judged at each keystroke; box_link.js: its state as an address
"""
