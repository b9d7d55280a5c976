"""What runs in a reader's browser when a page of the site asks Python: no Jupyter, no other host.

worker.js          Python in a worker of the page: started once, one call after another
host.py            what may be called, with words and plain data in both directions; CPython can call it, too
typed_schedule.py  what the box's schedule does, with costs of one's own and beside another one
anywidget.py       what the package's widgets need of anywidget, on traitlets alone
python.js          the page's half: starts the worker, asks it, keeps the learner's file
merge.js           two tabs' copies of the learner's file as one
puzzle.js          the puzzle's page
box.js             a schedule that one types, judged at each keystroke
box_link.js        its state as an address
"""
