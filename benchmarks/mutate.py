"""Change places of the package at random, one at a time, and list the changes that no test of their room notices.

    python benchmarks/mutate.py --places 100 --seed 3            # prints the seed, and a table of what survived
    python benchmarks/mutate.py --under gpipe_edu/sizing -- -m "not slow"

What follows -- goes to pytest. All happens in a copy of the tree in a temporary folder, so neither an error nor Ctrl-C
leaves a change behind. What survived is for a person to judge: some changes mean the same, some do not matter.

Not mutmut: it puts a switch into every function, while the course reads the sources of functions, counts frames, and
runs half of its code in processes of its own; and it must first run all tests to learn which one calls what. Not
cosmic-ray: it has one test command for all places, and thirteen dependencies. Here a place's file says which tests to
run: first those that import it, then the others of its room.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COMPARED = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Mutant(NamedTuple):
    """A file, the bytes from `start` to `end` in it, and what replaces them."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def source(self) -> bytes:
        """The whole file, changed."""
        data = self.path.read_bytes()
        return data[: self.start] + self.text.encode() + data[self.end :]

    def __str__(self) -> str:
        was = " ".join(self.path.read_bytes()[self.start : self.end].decode().split())
        return f"| {self.path.relative_to(ROOT)}:{self.line} | `{was}` | `{self.text}` |"


def mutants(path: Path) -> list[Mutant]:
    """All changes of one file."""
    data = path.read_bytes()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [
        Mutant(path, node.lineno, starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + end, text)
        for node, text in changes(ast.parse(data))
        if (end := node.end_col_offset) is not None
    ]


def changes(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Nodes of code that runs, and what replaces each."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.arg):  # no places inside of an f-string; no types
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
            flipped = ast.Compare(node.left, [COMPARED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
            yield node, f"({ast.unparse(flipped)})"
        elif isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, f"({ast.unparse(node.operand)})"
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, f"{node.value + 1}"
            yield node, f"({node.value - 1})"
        elif isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
            yield node, "return None"
        elif isinstance(node, ast.Raise | ast.AugAssign | ast.Delete | ast.Expr) and not is_text(node):
            yield node, "pass"
        yield from changes(node)


def is_text(node: ast.AST) -> bool:
    """Whether it is a docstring, or a `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def tests_of(path: Path) -> list[str]:
    """What pytest is given for a file of the package: the tests that import it, then those of its room."""
    inside = path.relative_to(ROOT / "gpipe_edu").with_suffix("").parts
    if inside[:2] == ("judge", "tasks") and len(inside) > 3:
        return ["tests/judge", "tests/solutions/test_bank.py", "-k", f"not test_bank or {inside[2][:4]}"]
    above, name = ".".join(("gpipe_edu", *inside[:-1])), inside[-1]
    imports = re.compile(rf"^ *from {above}(\.{name} import\b| import .*\b{name}\b)", re.MULTILINE)
    tests = [
        str(test.relative_to(ROOT))
        for test in sorted((ROOT / "tests").rglob("test_*.py"))
        if imports.search(test.read_text())
    ]
    room = inside[1] if inside[0] == "teaching" else inside[0]  # whose rooms have tests in rooms of their own
    if (ROOT / "tests" / room).is_dir():
        return [*tests, f"tests/{room}"]
    return tests or ["tests/grading" if inside[0] == "teaching" else "tests/cli"]


def run(copy: Path, tests: list[str], options: list[str], seconds: float) -> int | None:
    """Pytest's exit status in the copy, None if it takes too long; whatever it has started ends with it."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests, *options]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=quiet, stderr=quiet, start_new_session=True
    ) as done:
        try:
            return done.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(done.pid, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=100, help="how many changes are tried")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="which ones")
    parser.add_argument("--seconds", type=float, default=300, help="a change that takes the tests longer is noticed")
    parser.add_argument("--under", type=Path, default=Path("gpipe_edu"), help="a folder or a file of the package")
    parser.add_argument("options", nargs="*", help="for pytest")
    asked = parser.parse_args()
    under = ROOT / asked.under
    files = [under] if under.is_file() else sorted(under.rglob("*.py"))
    known = [mutant for path in files for mutant in mutants(path)]
    if asked.places < 1 or not known:
        parser.error(
            f"{asked.places} places of {len(known)} under {asked.under}: give 1 or more, and a part of gpipe_edu/"
        )
    chosen = random.Random(asked.seed).sample(known, min(asked.places, len(known)))
    print(f"seed {asked.seed}: {len(chosen)} of {len(known)} changes", flush=True)
    lived, sound = [], {}
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_mutate_", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "copy"
        tracked = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
        for name in filter(None, subprocess.check_output(tracked, cwd=ROOT, text=True).split("\0")):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        for number, mutant in enumerate(chosen, 1):
            tests, target = tests_of(mutant.path), copy / mutant.path.relative_to(ROOT)
            room = tests[-1]
            if room not in sound:
                sound[room] = run(copy, tests, asked.options, 4 * asked.seconds)
            if sound[room] != 0:
                print(f"{number}: without any change `pytest {' '.join(tests)}` ends with {sound[room]}", flush=True)
                continue
            try:
                target.write_bytes(mutant.source())
                status = run(copy, tests, asked.options, asked.seconds)
            finally:
                target.write_bytes(mutant.path.read_bytes())
            lived += [mutant] if status == 0 else []
            print(f"{number}: {'lived' if status == 0 else 'noticed'} {mutant}", flush=True)
    print(f"\n{len(lived)} of {len(chosen)} lived\n\n| place | was | is |\n|---|---|---|")
    print(*lived, sep="\n")
    return int(bool(lived))


if __name__ == "__main__":
    sys.exit(main())
