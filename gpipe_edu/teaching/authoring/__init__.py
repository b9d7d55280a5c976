"""Tools for those who write exercises: a skeleton that works from the start, and a list of what is not right yet.

    material.py   where the parts of an exercise are, and what a problem with one of them is
    texts.py      what is seen without running an answer: sentences, hints, a row in docs/course.md, files
    verdicts.py   what is seen only when the bank, the solution and the stub are judged
    command.py    writes the parts of a new one, from template/; checks all of it, for the exercises asked for

The tests of the banks use texts.py and verdicts.py, too, so that each rule is stated once.
"""
