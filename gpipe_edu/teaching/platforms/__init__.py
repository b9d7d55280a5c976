"""Our judge inside other graders: nbgrader and Gradescope.

`nbgrader_course.py` writes a course for nbgrader, and `nbgrader_judge.py` runs in its `autograde` in place of the
cells; metadata come from its gradebook, because a hand-in's can be forged. It judges a class at the first notebook,
since loading libraries costs more than most answers. `gradescope_zip.py` writes an autograder, `gradescope_run.py` runs
in its container, and answers run there as the user nobody where there is no sandbox.
"""
