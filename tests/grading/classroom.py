"""Hand-ins for tests: the course's own notebooks with answers typed into them."""

import json
from pathlib import Path

from gpipe_edu.course import percent
from gpipe_edu.course.exercise import find

ROOT = Path(__file__).resolve().parents[2]

CLOCK = "def clock(K, M):\n    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]"
LOOP = "def clock(K, M):\n    return [[(m, k)] for m in range(M) for k in range(K)]"
SEVEN = "def clock(K, M):\n    return 7"


def notebook(name):
    """The released notebook, as data."""
    return json.loads((ROOT / "exercises" / f"{name}.ipynb").read_text(encoding="utf-8"))


def answer_cell(book, key):
    """The cell that a learner writes in."""
    wanted = f"{find(key).cell}-answer"
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
    book = notebook(find(next(iter(answers))).notebook)
    for key, text in answers.items():
        answer_cell(book, key)["source"] = text
    return book


def solved(name):
    """The notebook with all of its solutions."""
    cells = percent.read((ROOT / "solutions" / f"{name}.py").read_text(encoding="utf-8"))
    book = notebook(name)
    for cell, master in zip(book["cells"], cells, strict=True):
        cell["source"] = percent.solution_of(master.source)
    return book


def hand_in(path, book):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(book if isinstance(book, str) else json.dumps(book), encoding="utf-8")
    return path
