"""A class: hand-ins found, answers cut out of them and judged in a cage, marks, and what a teacher and a learner read.

Nothing of a hand-in is run but the function that a task asks for and what it needs, and that in a process of its own
that can touch nothing. The judge is that of `check`.
"""
