"""Functions travel with everything they use, in whatever style a learner writes, and nothing else."""

import functools
import io
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gpipe_edu.course import carry

ROOT = str(Path(__file__).resolve().parents[2])
CONSTANT = 5
LOCK = threading.Lock()
TABLE = {"double": lambda x: 2 * x}


def elsewhere(function, *arguments):
    """What `function` gives in another process that has never seen this file."""
    packed = carry.pack(function)
    code = (
        f"import sys; sys.path.append({ROOT!r}); from gpipe_edu.course import carry; "
        f"print(repr(carry.unpack(sys.stdin.buffer.read())(*{arguments!r})))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], input=packed.body, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def helper(x):
    return x + CONSTANT


def uses_helper(x):
    return helper(x) * int(np.int64(1))


def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)


def counter(start):
    def count():
        nonlocal start
        start += 1
        return start

    return count


def uses_table(x):
    return TABLE["double"](x)


def uses_lock(x):
    with LOCK:
        return x


@dataclass(frozen=True)
class Point:
    x: int
    y: "int" = 3

    def total(self):
        return self.x + self.y + CONSTANT


class Child(list):
    """A class with a base, a property, a class method and super()."""

    made = 0

    def __init__(self, items):
        super().__init__(items)

    @classmethod
    def of(cls, *items):
        return cls(items)

    @property
    def size(self):
        return len(self) + CONSTANT


def uses_classes(x):
    return Point(x).total() + Child.of(1, 2).size


@functools.cache
def cached(x):
    return x if x < 2 else cached(x - 1) + cached(x - 2)


def decorated(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments) + 100

    return inner


@decorated
def decorated_helper(x, *, more=1):
    return helper(x) + more


class Callable:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x


@pytest.mark.parametrize(
    ("function", "argument", "wanted"),
    [
        (uses_helper, 2, "7"),
        (factorial, 5, "120"),
        (counter(4), None, "5"),
        (uses_table, 4, "8"),
        (uses_classes, 1, "16"),
        (cached, 10, "55"),
        (decorated_helper, 1, "107"),
        (functools.partial(helper), 1, "6"),
        (Callable(3), 4, "12"),
        (Callable(3).__call__, 4, "12"),
        (lambda x: [helper(y) for y in range(x)], 2, "[5, 6]"),
        (len, "ab", "2"),
        (np.sum, (1, 2), "np.int64(3)"),
    ],
)
def test_a_function_does_the_same_elsewhere(function, argument, wanted):
    assert elsewhere(function, *([] if argument is None else [argument])) == wanted


def test_what_a_notebook_did_to_a_library_stays_behind(monkeypatch):
    monkeypatch.setattr(np, "sum", lambda values: "patched")
    assert elsewhere(lambda: int(np.sum([1, 2]))) == "3"


def test_what_cannot_travel_is_left_out_and_named():
    packed = carry.pack(uses_lock)
    assert packed.missing == {"LOCK": "lock"}


def test_a_function_that_cannot_travel_is_refused():
    file = io.BufferedReader(io.BytesIO())
    with pytest.raises(TypeError, match="cannot be taken"):
        carry.pack(lambda kept=file: kept)


def test_its_own_source_comes_along_and_no_library_s():
    assert list(carry.pack(uses_helper).sources) == [__file__]


def test_the_digest_is_that_of_the_code():
    def make(number):
        space = {}
        exec(compile(f"{chr(10) * number}def f(x):\n    return x + {number % 2}", f"cell {number}", "exec"), space)
        return carry.pack(space["f"]).digest

    assert make(0) == make(2) == make(4)
    assert make(0) != make(1)


def test_a_class_of_a_notebook_brings_its_cell_along(monkeypatch):
    text = "import math\n\nclass Mine:\n    def go(self):\n        return 1 / 0\n"
    monkeypatch.setattr(sys.modules["__main__"], "In", ["", text], raising=False)
    space = {"__name__": "__main__"}
    exec(text, space)
    source = carry.pack(space["Mine"]).sources["cell 1"]
    assert source.splitlines()[4].strip() == "return 1 / 0", "a message names the line by its number in the cell"
