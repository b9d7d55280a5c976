"""Building notebooks: exercises from their masters, a learner's copy of the course, terms that tell what they mean.

`solutions/` holds the one master of each exercise, `build.py` writes `exercises/` from it. A learner works in a copy of
the course (`workspace.py`), which `lab` makes and brings up to date; what was changed there is left alone.
"""
