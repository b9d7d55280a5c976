"""What README.md and benchmarks/README.md say of runs on GPUs, from the results in this folder alone.

python -m benchmarks.gpu.lines      writes both
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu import report

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NONE = "not run on a GPU yet"


def runs(folder: Path = HERE) -> list[Mapping[str, Any]]:
    """The results of all cards, in order of their names."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    return [results for results in found if not results["pretended"]]


def for_readme(found: list[Mapping[str, Any]]) -> str:
    """Of each card whether all held."""
    if not found:
        return f"[{NONE}](benchmarks/README.md)"
    return ", ".join(
        f"[{'all held' if report.holds(results) else 'not all held'} on {report.figure(results, 'card')}]"
        f"(benchmarks/gpu/{report.file_name(results)}.md)"
        for results in found
    )


def for_benchmarks(found: list[Mapping[str, Any]]) -> str:
    """Of each card the verdict, and what a step takes beyond accumulation."""
    if not found:
        return f"**{NONE}.**"
    return "; ".join(
        f"[{report.figure(results, 'card')}](gpu/{report.file_name(results)}.md), {_told(results)}" for results in found
    )


def _told(results: Mapping[str, Any]) -> str:
    bars = [each for each in report.findings(results, "bar") if each["unit"] and each["holds"] is not None]
    return ", ".join([results["date"], report.verdict(results), *(f"{each['name']}: {each['text']}" for each in bars)])


PLACES = {
    "README.md": (r"(?<=^The PyTorch engine on GPUs: ).*(?=\.$)", for_readme),
    "benchmarks/README.md": (r"(?<=^Runs: ).*$", for_benchmarks),
}
"""Where each line stands, one place in each file."""


def written(place: str, text: str, found: list[Mapping[str, Any]]) -> str:
    """The text of a file with its line. Raises ValueError for one in which its place is not found once."""
    pattern, line = PLACES[place]
    changed, count = re.subn(pattern, lambda _: line(found), text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{place} has {count} places for the line on GPUs; {pattern} must find one")
    return changed


if __name__ == "__main__":
    for place in PLACES:
        file = ROOT / place
        file.write_text(written(place, file.read_text(encoding="utf-8"), runs()), encoding="utf-8")
