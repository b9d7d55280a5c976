"""Grading a class: find hand-ins, cut answers out of them, judge these in an enclosure, mark, and write feedback.

Nothing in a hand-in is run except the function that a task asks for and what it needs, in a process of its own that
can touch nothing. The judge is the one of `check`, and runs outside that enclosure.

`submissions.py` finds hand-ins (`file_listing.py` all files, `hand_in_names.py` whose each is) and says which of
several answers counts. In `course/`, `submitted_notebook.py` reads them, and `cut_answer.py` takes one function and
what it needs out of a notebook without running it. Workers judge it (`judge/pool.py`), as they do for `check`, while
hand-ins are still being read. `journal.py` keeps each report and the seeds, `marks.py` and `marking.toml` say what it
is worth; `late.py` takes off what days after a deadline cost, `by_hand.py` has a person's decisions, which come last;
`marks_tables.py` and `feedback_pages.py` write the results, `platform_gradebook.py` what a platform takes back, each
file whole or not at all.
Anything wrong with one student's files is Refused, and affects that student alone. A broken promise does not end the
exam (`Exam.passed_over`), so the rest of the answer is judged too.

With `--in podman` the worker is in a container (`container.py`), and the grader on this side of a pipe: with hand-ins
and marks mounted, a hostile answer could read the former and write the latter. `platforms/` runs this judge inside
nbgrader and Gradescope, `handouts/` makes what a teacher hands out.
"""
