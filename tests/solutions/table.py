"""`python -m tests.solutions.table`: how many answers each task's bank has, as the table in CONTRIBUTING.md."""

from collections import Counter
from pathlib import Path

from .bank import everything

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
BEGIN, END = "<!-- bank: written by python -m tests.solutions.table -->\n\n", "\n<!-- end -->"


def table() -> str:
    """In Markdown, tasks in order, with their sums."""
    counted = Counter((entry.key, bool(entry.slip)) for entry in everything())
    keys = sorted({key for key, _ in counted})
    rows = [f"| {key} | {counted[key, True]} | {counted[key, False]} |\n" for key in keys]
    wrong, right = (sum(counted[key, kind] for key in keys) for kind in (True, False))
    return f"| task | wrong answers | right ones |\n|---|---|---|\n{''.join(rows)}| all | {wrong} | {right} |\n"


def page() -> str:
    """CONTRIBUTING.md, with the table as it is today."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return before + BEGIN + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
