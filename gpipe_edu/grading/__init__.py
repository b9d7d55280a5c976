"""A class: hand-ins found, answers cut out of them and judged in an enclosure, marks, and what people read of them.

Nothing of a hand-in is run but the function that a task asks for and what it needs, and that in a process of its own
that can touch nothing. The judge is that of `check`, and runs outside of that enclosure.

`submissions.py` finds hand-ins, `submitted_notebook.py` reads them, `cut.py` takes one function and what it needs out
of a notebook without running it. `judges.py` hands it to workers (`judge_worker.py`) that fork a judge for each answer,
while hand-ins are still being read. `journal.py` keeps each report, `marks.py` and `marking.toml` say what it is worth;
`tables.py` and `feedback_pages.py` write it down, each file whole or not at all. Whatever goes wrong with one student's
files is Refused, and that student's matter alone. Slips that cost only a part do not end the exam (`Exam.passed_over`),
so a right answer to the rest is known to be right.

With `--in podman` the worker is in a container (`container.py`, `container_worker.py`), and the grader on this side of
a pipe: with hand-ins and marks mounted, a hostile answer could read the ones and write the others. `skins/` is this
judge inside of nbgrader and Gradescope, `handouts/` what a teacher hands out.
"""
