"""A class of any size whose marks are known: right answers, answers of the bank, hostile ones and none at all."""

import inspect
import random
import re
import sys
from pathlib import Path

from gpipe_edu.judge.exercise import all_exercises, find_exercise
from gpipe_edu.teaching.grading.marks import points
from tests.solutions.bank import bank

from .classroom import answer_cell, hand_in, notebook, solved
from .hostile import HOSTILE


def fill(place, keys, students):
    """Hand in for a class; returns {student: {key: (state, points)}}, as they have to be."""
    expected = {}
    for number in range(students):
        rng, name = random.Random(number), f"s{number:02}"
        wanted = {key: _drawn(rng, key, name) for key in keys}
        for book in {find_exercise(key).notebook for key in keys}:
            handed_in = notebook(book)
            for key in (key for key in keys if find_exercise(key).notebook == book):
                answer_cell(handed_in, key)["source"] = wanted[key][0]
            hand_in(Path(place) / name / f"{book}.ipynb", handed_in)
        expected[name] = {key: mark for key, (_, mark) in wanted.items()}
    return expected


def _drawn(rng, key, name):
    """An answer, and the mark it gets. A third is the solution itself, or an answer that others have, too."""
    kind = rng.random() / (2 if key == "ex05/stages" else 1)  # always right: the course's wrapper is built on it
    full, source = float(points(key)), answer_cell(solved(find_exercise(key).notebook), key)["source"]
    if key == "ex02/clock" and kind > 0.8:
        return HOSTILE[rng.choice(sorted(set(HOSTILE) - SLOW))], ("wrong", 0.0)
    if kind < 0.2:
        return source, ("passed", full)
    if kind < 0.5:  # as quick or slow as the solution, but nobody else's
        return f"{source}\n\n{find_exercise(key).function}.whose = {name!r}", ("passed", full)
    if kind < 0.55:
        return answer_cell(notebook(find_exercise(key).notebook), key)["source"], ("unwritten", 0.0)
    entry = rng.choice(
        [one for one in bank(key) if "<locals>" not in one.function.__qualname__ and not _calls_ours(one)]
    )
    if not entry.slip:
        mark = ("passed", full)
    elif entry.slip in find_exercise(key).promises:
        mark = ("partly", 0.75 * full)
    else:
        mark = ("wrong", 0.0)
    return as_cell(entry), mark


SLOW = {"fills the disk", "fills the memory that is shared", "loops on the way"}
"""Hostile answers that take long, or the mark of which depends on where they stand."""


def _calls_ours(entry):
    """Whether it calls the bank's right answer, by the name that it would have itself in a cell."""
    wanted = find_exercise(entry.key).function
    return entry.function.__name__ != wanted and f"{wanted}(" in inspect.getsource(entry.function)


def as_cell(entry):
    """An answer of the bank as one types it into a notebook, with what its file defines for it."""
    module = sys.modules[entry.function.__module__.rpartition(f".{entry.name}")[0] or entry.function.__module__]
    around = re.sub(r"^ *@BANK\..*\n", "", inspect.getsource(module), flags=re.MULTILINE)
    own = re.sub(r"^ *@BANK\..*\n", "", inspect.getsource(entry.function), flags=re.MULTILINE)
    wanted = find_exercise(entry.key).function
    alias = "" if entry.function.__name__ == wanted else f"\n\n{wanted} = {entry.function.__name__}"
    return f"{around}\n\n{own}{alias}\n"


def keys_of(numbers):
    """The tasks of these exercises, such as "01"."""
    return tuple(key for key in all_exercises() if key[2:4] in numbers)
