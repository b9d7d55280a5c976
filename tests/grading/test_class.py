"""A class gets the marks that it has to get, whatever interrupts, reorders or crowds the grading.

Every day it is a small class with two exercises; with `--whole-class` it is 40 students with all ten.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from gpipe_edu.judge.exercise import all_exercises, find_exercise
from tests import preloaded
from tests.amount import third
from tests.processes import PATIENCE, ROOT, running, until
from tests.solutions.bank import everything
from tests.solutions.shares import WRONG_BESIDES

from .classroom import digests, hand_in, needs_sandbox, of_the_bank, table
from .school import fill, keys_of

pytestmark = [pytest.mark.slow, needs_sandbox, pytest.mark.timeout(7200)]

REPORT = ("marks.csv", "answers.csv", "marks.json", "class.html")


class Size(NamedTuple):
    students: int
    keys: tuple[str, ...]
    kills: int
    soon: int
    """Seconds after a kill in which all ends: 2 on a quiet machine, and many times that on a busy one."""


@pytest.fixture(scope="module")
def size(pytestconfig):
    if pytestconfig.getoption("whole_class"):
        return Size(40, tuple(all_exercises()), 10, 2)
    return Size(8, keys_of(("01", "02")), 2, 120)


class Graded(NamedTuple):
    place: Path
    expected: dict
    out: Path
    seconds: float


def command(place, out, *more, python=sys.executable):
    return [python, "-m", "gpipe_edu", "grade", str(place), "--out", str(out), *more]


def environment(temporary):
    return {**os.environ, "PYTHONPATH": ROOT, "TMPDIR": str(temporary)}


def grade(place, out, temporary, *more, python=sys.executable):
    done = subprocess.run(
        command(place, out, *more, python=python),
        env=environment(temporary),
        capture_output=True,
        text=True,
        timeout=7000,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def marks(out):
    data = json.loads((out / "marks.json").read_text(encoding="utf-8"))["students"]
    return {name: {key: (one["state"], one["points"]) for key, one in row.items()} for name, row in data.items()}


@pytest.fixture(scope="module")
def graded(size, tmp_path_factory):
    folder = tmp_path_factory.mktemp("class")
    place, temporary = folder / "in", folder / "temporary"
    temporary.mkdir()
    expected = fill(place, size.keys, size.students)
    before = digests(place), digests(Path(ROOT) / "gpipe_edu"), digests(Path(ROOT) / "solutions")
    began = time.monotonic()
    grade(place, folder / "out", temporary, "--tasks", ",".join(size.keys), "--jobs", "2")
    seconds = time.monotonic() - began
    assert running(temporary) == []
    assert (digests(place), digests(Path(ROOT) / "gpipe_edu"), digests(Path(ROOT) / "solutions")) == before
    assert list(temporary.iterdir()) == []
    assert {path.name for path in folder.iterdir()} == {"in", "out", "temporary"}
    return Graded(place, expected, folder / "out", seconds)


def test_every_mark_is_as_documented(graded):
    found = marks(graded.out)
    assert {
        (name, key): (found[name][key], mark)
        for name, row in graded.expected.items()
        for key, mark in row.items()
        if found[name][key] != mark
    } == {}


def test_once_more_nothing_is_judged_and_nothing_changes(graded, size, tmp_path):
    shutil.copytree(graded.out, tmp_path / "out")
    tasks, python = ",".join(size.keys), preloaded.python()
    assert "0 new answers" in grade(graded.place, tmp_path / "out", tmp_path, "--tasks", tasks, python=python)
    for name in REPORT:
        assert (tmp_path / "out" / name).read_bytes() == (graded.out / name).read_bytes()


def test_killed_at_random_moments_and_in_another_order_it_is_the_same_report(graded, size, tmp_path):
    """With another number of answers at once, too. After each kill nothing runs any more.

    Others come first, and so are judged when others were found in the journal.
    """
    out, temporary, rng = tmp_path / "out", tmp_path / "temporary", random.Random(4)
    out.mkdir()
    temporary.mkdir()
    shutil.copy(graded.out / "seeds.json", out)
    names, journal = sorted(graded.expected), out / "journal.jsonl"
    renamed = dict(zip(names, reversed(names), strict=True))
    for name in names:
        shutil.copytree(graded.place / name, tmp_path / "in" / renamed[name])
    more = ("--tasks", ",".join(size.keys), "--jobs", "3")
    for number in range(size.kills):
        grader = subprocess.Popen(
            command(tmp_path / "in", out, *more),
            env=environment(temporary),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1 + rng.random() * graded.seconds / size.kills)
        grader.send_signal(signal.SIGINT if number == 1 else signal.SIGKILL)
        grader.wait(PATIENCE)
        until(lambda: running(temporary) == [], size.soon)
    if journal.exists():
        journal.write_bytes(journal.read_bytes()[:-20])  # as if the last line had been cut off
    grade(tmp_path / "in", out, temporary, *more)
    first, second = marks(graded.out), marks(out)
    assert {name: first[name] for name in names} == {name: second[renamed[name]] for name in names}
    assert "0 new answers" in grade(graded.place, out, temporary, *more)
    for name in REPORT:
        assert (out / name).read_bytes() == (graded.out / name).read_bytes()


def test_an_answer_of_the_bank_that_is_sliced_out_of_a_notebook_is_diagnosed_as_ever(pytestconfig, tmp_path):
    """A student has handed in as many of them as there are notebooks."""
    expected, number_of = {}, Counter()
    entries = everything() if pytestconfig.getoption("whole_class") else third(everything()[::60])
    for entry in entries:
        notebook = find_exercise(entry.key).notebook
        student = str(number_of[notebook])
        number_of[notebook] += 1
        hand_in(tmp_path / "in" / student / f"{notebook}.ipynb", of_the_bank(entry))
        if entry.name not in WRONG_BESIDES:
            expected[student, entry.key] = entry.slip
    more = ("--seeds", "1", "--jobs", "1")
    grade(tmp_path / "in", tmp_path / "out", tmp_path, *more)
    found = {(row["student"], row["task"]): row["slip"] for row in table(tmp_path / "out" / "answers.csv")}
    assert {task: found[task] for task in expected} == expected
