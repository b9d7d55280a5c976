"""Predictions: questions whose answer shows only after a commit, and the TOML files that hold them, a file a lesson.

A question is of one of four kinds (`question_kind.py`): options, a bar to drag, an op to click, a curve to draw. The
questions of an exercise stand in its `said.toml`, so no notebook holds an answer. Each learner sees the options in an
order of his or her own (`option_order.py`); what is kept is the letter of the file. While a question is open, the
kernel gives back what *Run All* has queued behind it (`queued_cells.py`), but not in the lab of the site.
"""
