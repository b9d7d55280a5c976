"""Our judge inside of other people's graders: nbgrader and Gradescope.

`nbgrader_course.py` writes a course for nbgrader, and `nbgrader_judge.py` runs in its `autograde` instead of cells;
metadata come from its gradebook, because a hand-in's are the learner's. It judges a class at the first notebook, since
loading libraries costs more than most answers. `gradescope_zip.py` writes an autograder, `gradescope_run.py` runs in
its container, and `gradescope_worker.py` has answers run there as nobody where there is no cage.
"""
