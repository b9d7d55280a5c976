"""What an exercise asks for is read at one glance: what the function does, then its small print, in a narrow cell.

Where that would be more than a docstring of 130 words, the small print is folded, in the text in front of the cell.
"""

import ast
import re
from itertools import pairwise
from pathlib import Path

import nbformat

from gpipe_edu.course.building import percent_format
from gpipe_edu.course.building.build import notebook_text

ROOT = Path(__file__).resolve().parents[2]
MASTERS = sorted((ROOT / "solutions").glob("exercise_*.py"))
COLUMNS = 88
"""So many fit into a cell at 1366 x 768, also where the list of files is open, and into one of a page."""
LINES, DOES, WORDS, MOST = 4, 60, 90, 130
"""What the function does, in lines and in words; all that stands above the small print; and a whole docstring."""
SMALL_PRINT = "Small print:"
FOLDED = re.compile(r"<details><summary>Small print</summary>\n\n(.*)\n\n</details>\Z", re.DOTALL)
"""Where a docstring would be too long with it: at the end of the text in front of the answer's cell."""
NAMED = re.compile(r"([\w.]+(, [\w.]+)*(\(\w+(, \w+)*\))?: |Returns |Raises )")
"""The first line of what is given and what comes back; the other lines of such an item are indented."""


def answers(master):
    """The docstrings of each answer's cell, of its function, or of its class and its methods; and its small print."""
    cells = percent_format.read(master.read_text(encoding="utf-8"))
    for before, cell in pairwise(cells):
        if cell.metadata.get("nbgrader", {}).get("solution"):
            code = ast.parse(cell.source).body
            [answer] = [node for node in code if isinstance(node, ast.FunctionDef | ast.ClassDef)]
            nodes = [answer, *(node for node in answer.body if isinstance(node, ast.FunctionDef))]
            texts = [ast.get_docstring(node) for node in nodes if ast.get_docstring(node)]
            found = FOLDED.search(before.source)
            yield texts, [*(paragraphs(text)[1] for text in texts), *([found[1].splitlines()] if found else [])]


def paragraphs(text):
    """What stands above the small print, in paragraphs, and the lines of the small print."""
    above, _, small = text.partition(SMALL_PRINT)
    return above.strip().split("\n\n"), small.strip("\n").splitlines()


def prose(text):
    return [word for word in text.split() if re.search("[A-Za-z]", word)]


def test_what_it_does_has_four_lines_and_the_rest_is_a_list():
    seen = 0
    for master in MASTERS:
        for texts, _ in answers(master):
            seen += 1
            for text in texts:
                assert len(prose(text)) <= MOST, f"fold its small print, in the text in front of the cell: {text}"
                (summary, *others), _ = paragraphs(text)
                does = [summary, *(one for one in others[:1] if not NAMED.match(one))]
                assert sum(len(one.splitlines()) for one in does) <= LINES, text
                assert len(prose(" ".join(does))) <= DOES, text
                for one in others[len(does) - 1 :]:
                    assert all(NAMED.match(line) or line.startswith("    ") for line in one.splitlines()), one
                assert len(prose(" ".join([summary, *others]))) <= WORDS, text
            assert len(prose(texts[0].partition(SMALL_PRINT)[0])) >= 30, texts[0]
    assert seen == 26


def test_small_print_is_a_list_of_clauses():
    for master in MASTERS:
        for texts, prints in answers(master):
            assert any(prints), texts[0]
            for small in prints:
                assert all(line.startswith(("- ", "  ")) for line in small), small
                clauses = re.sub(r"\n  ", " ", "\n".join(small)).splitlines()
                assert all(clause.endswith(".") and len(prose(clause)) <= 45 for clause in clauses), clauses
                assert not any(";" in clause and ", but" in clause for clause in clauses), clauses


def test_no_line_is_cut_off_in_a_cell():
    for master in MASTERS:
        for number, line in enumerate(master.read_text(encoding="utf-8").splitlines(), 1):
            own = not line.startswith(("# %%", "# |"))  # nbgrader's words are no text, and a row of a table has no end
            assert len(line) <= COLUMNS or not own, f"{master.name}:{number} has {len(line)} columns: {line}"
        for cell in nbformat.reads(notebook_text(master), as_version=4).cells:
            if cell.cell_type == "code":
                assert max(map(len, cell.source.splitlines())) <= COLUMNS, cell.source
