"""A clone of the repository, as far as an author of exercises needs it, to be broken at will."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.processes import PATIENCE

PARTS = (
    "gpipe_edu",
    "solutions",
    "exercises",
    "docs/glossary.md",
    "docs/course.md",
    "tests/solutions",
    "tests/oracle.py",
    "tests/recipes.py",
    "tests/__init__.py",
    "tests/amount.py",
    "tests/conftest.py",
    "tests/preloaded.py",
    "tests/processes.py",
)
FOLDER = "gpipe_edu/judge/tasks/ex20_way_back"
MASTER = "solutions/exercise_20_way_back.py"
BANK = "tests/solutions/bank/ex20_way_back.py"
MARKING = "gpipe_edu/teaching/grading/marking.toml"
WRITTEN = (*(f"{FOLDER}/{part}" for part in ("__init__.py", "perform.py", "messages.toml", "check.py")), MASTER, BANK)

ANSWERS = """

BANK.changed("no-return", "computes_and_forgets", "yield from range", "range")
BANK.changed("arguments", "wants_the_micro_batches", "(K)", "(K, M)")
BANK.changed("error", "misspells", "range", "rnage")
BANK.changed("exit", "leaves", "yield from", "raise SystemExit\\n    yield from")
BANK.changed("memory", "a_table_for_everything", "yield from range", "return [None] * 10**13 + range")


@dataclass
class Stage:
    number: int


class Way(Enum):
    BACK = -1


class Span(NamedTuple):
    first: int
    last: int


@BANK.right
def stage_by_stage(K):
    span = Span(K - 1, 0)
    return [Stage(k).number for k in range(span.first, span.last + Way.BACK.value, Way.BACK.value)]
"""


class Clone:
    """Files by the paths that an author types, and commands run there."""

    def __init__(self, root):
        self.root = root

    def copy(self, root):
        """Another clone of the same."""
        for part in PARTS:
            copy = shutil.copytree if (self.root / part).is_dir() else shutil.copy
            (root / part).parent.mkdir(parents=True, exist_ok=True)
            copy(self.root / part, root / part)
        return Clone(root)

    def run(self, *arguments, ends=0):
        """What Python prints, on both of its streams."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "GPIPE_EDU_HOME": str(self.root / "home")}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == ends, done.stdout
        return done.stdout

    def exercise(self, *arguments, ends=0):
        """What `gpipe-edu exercise` prints."""
        return self.run("-m", "gpipe_edu", "exercise", *arguments, ends=ends)

    def edit(self, path, old, new):
        """Put `new` in the place of `old`, which is there once; "" is the end of the file."""
        text = (self.root / path).read_text() if (self.root / path).exists() else ""
        assert not old or text.count(old) == 1, (path, old)
        (self.root / path).write_text(text.replace(old, new) if old else text + new)

    def finish(self):
        """What the author of ex20/way-back does after `exercise new`."""
        for path in WRITTEN:
            text = (self.root / path).read_text()
            (self.root / path).write_text(re.sub(r"^# TODO.*\n", "", text, flags=re.MULTILINE).replace("TODO: ", ""))
        self.edit(
            BANK,
            "from tests.solutions.bank import Bank\n",
            "from dataclasses import dataclass\nfrom enum import Enum\nfrom typing import NamedTuple\n\n"
            "from tests.solutions.bank import Bank\n",
        )
        self.edit(BANK, "", ANSWERS)
        self.edit(MARKING, "[points]\n", '[points]\n"ex20/way-back" = 2\n')
        row = (
            "| [20 The way back](../exercises/exercise_20_way_back.ipynb) | 03 | 1 | 15 | the order of the backward |\n"
        )
        self.edit("docs/course.md", "", row)
        self.run("-m", "gpipe_edu", "build")
        return self


REPOSITORY = Clone(Path(__file__).resolve().parents[2])
