"""Of several files with a task's function in them, the one counts that is its answer."""

import json
from pathlib import PurePosixPath

import pytest

from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.teaching.grading.file_listing import File
from gpipe_edu.teaching.grading.submissions import find_answers

KEY = "ex07/1f1b"
GRADE_ID = f"{find_exercise(KEY).cell}-answer"
ANSWER = b"def one_f_one_b(K, M):\n    return 'right'\n"
STUB = b"def one_f_one_b(K, M):\n    raise NotImplementedError\n"
USED = b"one_f_one_b = str(3).splitlines()\n"


def chosen(*files):
    """The text that counts, of (name, content) from the oldest to the newest, and its notes."""
    handed_in = [
        File(PurePosixPath(name), (float(time),), lambda data=data: data) for time, (name, data) in enumerate(files)
    ]
    found = find_answers(handed_in, [KEY])[KEY]
    return found.answer.parts[-1][2] if found.answer.parts else found.answer.state, found.notes


@pytest.mark.parametrize(
    "files",
    [
        [("exercise_07_one_f_one_b.py", ANSWER), ("exercise_09_recompute.py", USED)],
        [("07.py", ANSWER), ("exercise_09_recompute.py", USED)],
        [("mine.py", ANSWER), ("yours.py", USED)],
        [("exercise_07_one_f_one_b.py", ANSWER), ("exercise_09_recompute.py", ANSWER.replace(b"right", b"other"))],
        [("mine.py", ANSWER), ("mine (1).py", STUB)],
    ],
)
def test_another_sheet_s_use_of_the_name_is_no_answer(files):
    text, notes = chosen(*files)
    assert text == ANSWER.decode().strip()
    assert notes == (f"of 2 files with one_f_one_b in them, the one that fits best counts: {files[0][0]}",)


def test_of_those_that_fit_equally_the_newest_counts():
    text, notes = chosen(("a.py", ANSWER), ("b.py", ANSWER.replace(b"right", b"newer")))
    assert "newer" in text
    assert notes == ("of 2 files with one_f_one_b in them, the newest counts: b.py",)


def test_an_answer_may_be_an_assignment():
    assert chosen(("exercise_07_one_f_one_b.py", b"one_f_one_b = lambda K, M: 1"))[0].startswith("one_f_one_b = lambda")


def test_why_there_is_no_answer_is_told():
    named = {"nbgrader": {"grade_id": GRADE_ID}}
    cell = {"cell_type": "code", "source": f"%%bash\n{ANSWER.decode()}", "metadata": named}
    data = json.dumps({"cells": [cell]}).encode()
    found = find_answers([File(PurePosixPath("mine.ipynb"), (0.0,), lambda: data)], [KEY])[KEY]
    assert found.answer is None
    assert found.notes == ("code cell 1: a cell of %%bash is no Python, and was left out",)
