"""Predictions: questions whose answers show only after a commit, and the TOML files that hold them, one per lesson.

A question is of one of four kinds (`question_kind.py`): options, a bar to drag, an op to click, a curve to draw. The
questions of an exercise stand in its `messages.toml`, so no notebook holds an answer. Each learner sees the options
in a different order (`option_order.py`); what is stored is the letter in the file. While a question is open, the kernel
returns, unrun, the cells that *Run All* has queued behind it (`notebook/frontend.py`), except in the site's lab.
"""
