"""Functions travel with everything they use, in whatever style a learner writes, and nothing else."""

import contextlib
import enum
import functools
import io
import linecache
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import namedtuple
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pytest

from gpipe_edu.process import packing
from tests.processes import PATIENCE

pytestmark = pytest.mark.slow

ROOT = str(Path(__file__).resolve().parents[2])
CONSTANT = 5
LOCK = threading.Lock()
TABLE = {"double": lambda x: 2 * x}


def elsewhere(function, *arguments):
    """What `function` gives in another process that has never seen this file."""
    packed = packing.pack(function)
    code = (
        f"import sys; sys.path.append({ROOT!r}); from gpipe_edu.process import packing; "
        f"print(repr(packing.unpack(sys.stdin.buffer.read())(*{arguments!r})))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], input=packed.body, capture_output=True, timeout=PATIENCE)
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
    packed = packing.pack(uses_lock)
    assert packed.missing == {"LOCK": "lock"}


def test_a_function_that_cannot_travel_is_refused():
    file = io.BufferedReader(io.BytesIO())
    with pytest.raises(TypeError, match="cannot be taken"):
        packing.pack(lambda kept=file: kept)


def test_its_own_source_comes_along_and_no_library_s():
    assert list(packing.pack(uses_helper).sources) == [__file__]


@contextlib.contextmanager
def opened():
    yield CONSTANT


def without_gradients():
    import torch

    @torch.no_grad()
    def plain():
        return torch.is_grad_enabled()

    return plain


@pytest.mark.parametrize(
    "helper", [lambda: Point(1), lambda: Cell(1), lambda: Typed(1), lambda: Colour.RED, opened, without_gradients()]
)
def test_a_helper_that_a_library_has_a_part_in_brings_nothing_of_the_library_along(helper):
    """A dataclass's `__repr__`, say, is code of dataclasses.py."""
    packed = packing.pack(lambda: helper)
    assert list(packed.sources) == [__file__]
    assert len(packed.body) < 10_000


def test_the_digest_is_that_of_the_code():
    def make(number):
        space = {}
        exec(compile(f"{chr(10) * number}def f(x):\n    return x + {number % 2}", f"cell {number}", "exec"), space)
        return packing.pack(space["f"]).digest

    assert make(0) == make(2) == make(4)
    assert make(0) != make(1)


def test_a_class_of_a_notebook_brings_its_cell_along(monkeypatch):
    text = "import math\n\nclass Mine:\n    def go(self):\n        return 1 / 0\n"
    monkeypatch.setitem(linecache.cache, "cell 1", (len(text), None, text.splitlines(keepends=True), "cell 1"))
    space = {"__name__": "__main__"}
    exec(compile(text, "cell 1", "exec"), space)
    source = packing.pack(space["Mine"]).sources["cell 1"]
    assert source.splitlines()[4].strip() == "return 1 / 0", "a message names the line by its number in the cell"


class Slotted:
    __slots__ = ("__hidden", "x")

    def __init__(self, x):
        self.x, self.__hidden = x, x

    def both(self):
        return self.x + self.__hidden


class Late:
    """A method is added below, and the class stands in an `if`, as in a notebook that looks for torch."""


if sys.version_info:

    class Late:
        factor = 3


def times(self, x):
    return self.factor * helper(x)


Late.times = times

Pair = namedtuple("Pair", "a b")


class Typed(NamedTuple):
    a: int
    b: int = CONSTANT

    def total(self):
        return self.a + self.b


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def next(self):
        return Colour.BLUE if self is Colour.RED else Colour.RED


class Bits(enum.IntFlag):
    A = enum.auto()
    B = enum.auto()


@dataclass
class Parent:
    items: list = field(default_factory=list)

    def __post_init__(self):
        self.items.append(CONSTANT)


@dataclass(slots=True, order=True)
class Cell:
    x: "int"
    y: int = 1


class Shape(ABC):
    @abstractmethod
    def area(self): ...

    @functools.cached_property
    def twice(self):
        return 2 * self.area()


class Square(Shape):
    def area(self):
        return 9


Item = TypeVar("Item")


class Opens(Protocol):
    def open(self) -> object: ...


class Box(Opens, Generic[Item]):
    def __init__(self, item: Item) -> None:
        self.item = item

    def open(self):
        return self.item


def made_inside():
    class Node:
        def __init__(self, value, after=None):
            self.value, self.after = value, after

        def __len__(self):
            return 1 + (len(self.after) if self.after else 0)

    return Node


Node = made_inside()


class Locked:
    lock = threading.Lock()
    free = CONSTANT


@dataclass
class Required:
    x: int


def child_of_a_dataclass():
    @dataclass
    class Child(Required):
        z: "int"

    return [field.name for field in fields(Child)], Child(1, 2).z, replace(Cell(1, 2), x=5).x


def autograd():
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, gradient):
            return 3 * gradient

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x):
            return Double.apply(self.scale * x)

    layer = Layer()

    def learn():
        layer(torch.ones(1)).sum().backward()
        return layer.scale.grad.item()

    return learn


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda: Slotted(2).both(), "4"),
        (lambda: Late().times(1), "18"),
        (lambda: (Pair._fields, Pair(1, b=2)._replace(a=7)), "(('a', 'b'), Pair(a=7, b=2))"),
        (lambda: Typed(1).total(), "6"),
        (lambda: (Colour.RED.next is Colour.BLUE, Colour(2).name, next(iter(Colour)).value), "(True, 'BLUE', 1)"),
        (lambda: (int(Bits.A | Bits.B), Bits.A in Bits(3)), "(3, True)"),
        (lambda: (Parent([1]).items, Parent() == Parent()), "([1, 5], True)"),
        (lambda: (Cell(1) < Cell(2), Cell(1) == Cell(1)), "(True, True)"),
        (lambda: Square().twice, "18"),
        (lambda: Box[int](3).open(), "3"),
        (lambda: len(Node(1, Node(2))), "2"),
        (lambda: isinstance(Node(1), Node), "True"),
        (lambda: Locked.free, "5"),
        (child_of_a_dataclass, "(['x', 'z'], 2, 5)"),
        (autograd(), "3.0"),
    ],
)
def test_classes_in_every_style_travel(function, wanted):
    assert elsewhere(function) == wanted


def test_an_attribute_that_cannot_travel_is_named_and_the_class_comes_along():
    assert packing.pack(lambda: Locked.lock).missing == {"Locked.lock": "lock"}


def test_what_is_typed_in_a_class_or_as_a_default_counts_for_the_digest():
    def digest(text):
        space = {"__name__": "__main__"}
        exec(text, space)
        return packing.pack(space["f"]).digest

    def digest_of_class(factor):
        return digest(f"class C:\n    factor = {factor}\n\ndef f(x):\n    return C.factor * x")

    assert digest_of_class(2) == digest_of_class(2) != digest_of_class(3)
    assert digest("def f(x=1): pass") != digest("def f(x=2): pass")
    assert digest("def f(*, x=1): pass") != digest("def f(*, x=2): pass")


def test_the_digest_is_the_same_in_every_process():
    program = (
        "from gpipe_edu.process import packing\n"
        "def f(x):\n    return x in {'a', 'b', 'c', 'd'}\n"
        "print(packing.pack(f).digest)"
    )
    found = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": ROOT}
        found.add(subprocess.check_output([sys.executable, "-c", program], env=environment))
    assert len(found) == 1
