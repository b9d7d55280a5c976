"""Building notebooks: exercises from their masters, a learner's copy of the course, definitions for glossary terms.

`solutions/` holds the one master of each exercise, `build.py` writes `exercises/` from it. A learner works in a copy of
the course (`workspace.py`), which `lab` makes and brings up to date; files changed there are left alone.
"""
