"""Predictions: questions whose answers show only after a commit, and the TOML files that hold them, one per lesson.

All are of one kind, options of which one is right (`choice.py`): each wrong one is a misconception with its own
sentence, and a lecture's vote and a quiz can ask the same question. The questions of an exercise stand in its
`messages.toml`, so no notebook holds an answer. Each learner sees the options in a different order
(`option_order.py`); what is stored is the letter in the file. While a question is open, the kernel returns, unrun, the
cells that *Run All* has queued behind it (`notebook/frontend.py`), except in the site's lab.
"""
