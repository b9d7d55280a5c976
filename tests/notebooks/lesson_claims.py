"""What a lesson says of its numbers is held against the lesson's own run, and stands in no learner's way.

`claims/03_scheduling.py` has a block behind each `# %% CELL`: plain Python that runs in the kernel in which nbval runs
the lesson, as soon as that cell has run, so nothing runs a second time. A block sees all names of the lesson. The
lesson sees none of a block's, so that it never needs one that a learner would not have.
"""

import inspect
import re
from pathlib import Path

import pytest

from ..processes import PATIENCE

CLAIMS = Path(__file__).with_name("claims")
BLOCK = re.compile(r"^# %% (.+)\n", re.MULTILINE)


def claims(notebook):
    """The blocks of a notebook, by cell: each with as many empty lines in front as there are in its file."""
    text = CLAIMS.joinpath(f"{notebook}.py").read_text(encoding="utf-8")
    heads = list(BLOCK.finditer(text))
    assert len({head[1] for head in heads}) == len(heads), f"two blocks of {notebook} name the same cell"
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return {
        head[1]: "\n" * text.count("\n", 0, head.end()) + text[head.end() : end]
        for head, end in zip(heads, ends, strict=True)
    }


def hold(block, lesson):
    """Run a block on a copy of the lesson's names. Raises AssertionError with the line, the claim and its values.

    A kernel gets this function as text, and knows nothing else of this file.
    """
    import ast

    names = dict(lesson)
    try:
        exec(compile(block, "claims", "exec"), names)
    except Exception as error:
        line = error.__traceback__.tb_next.tb_lineno
        inside = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.stmt)]
        claim = [node for node in inside if node.lineno <= line <= node.end_lineno][-1]
        said = f"{line}: {ast.unparse(claim)}"
        if not isinstance(error, AssertionError):
            said += f"\n{type(error).__name__}: {error}"
        elif isinstance(claim, ast.Assert) and isinstance(claim.test, ast.Compare):
            sides = [claim.test.left, *claim.test.comparators]
            said += "\nThe values: " + ", ".join(repr(eval(ast.unparse(side), names)) for side in sides)
        raise AssertionError(said) from None


def behind_their_cells(items):
    """The items with one more behind each cell of which something is claimed."""
    for item in items:
        yield item
        if hasattr(item, "cell_num") and item.path.parent.name == "notebooks":
            block = claims(item.path.stem).get(item.cell.id)
            if block:
                yield Claims.from_parent(item.parent, name=f"claims behind {item.cell.id}", block=block)


class Claims(pytest.Item):
    """A block, and the kernel that has just run the cell in front of it."""

    def __init__(self, *, block, **of_any_item):
        super().__init__(**of_any_item)
        self.block = block

    def runtest(self):
        code = f"{inspect.getsource(hold)}\nhold({self.block!r}, lesson)"
        source = f"exec({code!r}, {{'lesson': globals()}})"  # nothing of it is left in the lesson
        reply = self.parent.kernel.kc.execute_interactive(
            source, store_history=False, allow_stdin=False, timeout=PATIENCE, output_hook=lambda message: None
        )["content"]
        assert reply["status"] == "ok", reply["evalue"]

    def repr_failure(self, excinfo):
        return f"{self.path.name}, {self.name}:\n{CLAIMS.name}/{self.path.stem}.py:{excinfo.value}"

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}: {self.name}"
