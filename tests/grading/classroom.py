"""Hand-ins for tests: the course's own notebooks with answers typed into them; and what is read of their marks."""

import ast
import csv
import hashlib
import inspect
import json
import os
import subprocess
import sys
import sysconfig
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from gpipe_edu.course.building import percent_format
from gpipe_edu.judge.exercise import find_exercise
from gpipe_edu.process import bubblewrap
from tests.processes import PATIENCE, ROOT

needs_sandbox = pytest.mark.skipif(not bubblewrap.installed(), reason="bubblewrap is not here: apt install bubblewrap")

NOBODY = 65534

CLOCK = "def clock(K, M):\n    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]"
LOOP = "def clock(K, M):\n    return [[(m, k)] for m in range(M) for k in range(K)]"
SEVEN = "def clock(K, M):\n    return 7"


def notebook(name):
    """The released notebook, as data."""
    return json.loads((Path(ROOT) / "exercises" / f"{name}.ipynb").read_text(encoding="utf-8"))


def answer_cell(book, key):
    """The cell that a learner writes in."""
    wanted = f"{find_exercise(key).cell}-answer"
    return next(c for c in book["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == wanted)


def code(text, **metadata):
    return {
        "cell_type": "code",
        "id": "x",
        "metadata": metadata,
        "execution_count": None,
        "outputs": [],
        "source": text,
    }


def answered(answers):
    """The notebook of these answers, which are texts by key."""
    book = notebook(find_exercise(next(iter(answers))).notebook)
    for key, text in answers.items():
        answer_cell(book, key)["source"] = text
    return book


def solved(name):
    """The notebook with all of its solutions."""
    cells = percent_format.read((Path(ROOT) / "solutions" / f"{name}.py").read_text(encoding="utf-8"))
    book = notebook(name)
    for cell, master in zip(book["cells"], cells, strict=True):
        cell["source"] = percent_format.solution_of(master.source)
    return book


def hand_in(path, book):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(book if isinstance(book, str) else json.dumps(book), encoding="utf-8")
    return path


def run(*arguments, ends=0, seconds=PATIENCE, python=sys.executable, program="gpipe_edu", **environment):
    done = subprocess.run(
        [python, "-m", program, "grade", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": ROOT, **environment},
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout + done.stderr


def for_nobody(**more):
    """The environment of a program that another user runs, who finds the libraries where we do."""
    return {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join([ROOT, sysconfig.get_path("purelib")]), **more}


def for_all(*imports):
    """A Python of our version that every user of this machine may run, None if there is none.

    imports: modules that it has to find where we do.
    """
    question = f"import {', '.join(['sys', 'symtable', *imports])}; print(*sys.version_info[:2])"
    for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        with suppress(OSError):
            asked = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/", "env": for_nobody()}
            done = subprocess.run([python, "-c", question], capture_output=True, text=True, **asked)
            if done.stdout.split() == [str(part) for part in sys.version_info[:2]]:
                return python
    return None


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def digests(folder):
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def states(out):
    return {(row["student"], row["task"]): (row["state"], row["points"]) for row in table(out / "answers.csv")}


def of_the_bank(entry):
    """The notebook with an answer of the bank, and with all that stands beside it there."""
    name = find_exercise(entry.key).function
    module = sys.modules[entry.function.__module__.removesuffix(f".{entry.name}")]
    beside, answer = ast.parse(inspect.getsource(module)), ast.parse(textwrap.dedent(inspect.getsource(entry.function)))
    _strip(beside, answer)
    if inspect.isfunction(entry.function):
        for variable, cell in inspect.getclosurevars(entry.function).nonlocals.items():
            answer.body[:0] = ast.parse(f"{variable} = {cell.__name__}").body
    own = next(one.name for one in answer.body if hasattr(one, "name"))
    if own != name:
        # The bank's right answer goes by that name, too, and this one may build on it.
        for tree in beside, answer:
            _rename(tree, name, f"bank_{name}")
        answer.body += ast.parse(f"{name} = {own}").body
    book = answered({entry.key: ast.unparse(answer)})
    book["cells"].insert(book["cells"].index(answer_cell(book, entry.key)), code(ast.unparse(beside)))
    return book


def _strip(beside, answer):
    """Take away what would not be typed: the bank itself, and the decorators that put an answer in it."""
    ours = {"BANK"} | {one.name for one in beside.body if _decorates(one)}
    for node in [*ast.walk(beside), *ast.walk(answer)]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.decorator_list = [one for one in node.decorator_list if not ours & _names(one)]
    beside.body = [one for one in beside.body if not ours & ({one.name} if hasattr(one, "name") else _names(one))]


def _decorates(node):
    return isinstance(node, ast.FunctionDef) and any("BANK" in _names(part) for part in node.body)


def _names(node):
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _rename(tree, old, new):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
    for node in tree.body:
        if getattr(node, "name", None) == old:
            node.name = new
