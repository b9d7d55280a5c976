"""From the results of a run to its page: what was asked for, what was found, and by how much it was met or missed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Results = Mapping[str, Any]
_SAYS = {True: "holds", False: "**does not hold**", None: "not asked"}


def findings(results: Results, *kinds: str) -> Iterator[dict[str, Any]]:
    """Of all parts, in turn."""
    return (each for part in results["parts"] for each in part["findings"] if each["kind"] in kinds)


def figure(results: Results, name: str) -> str:
    """What was noted under a name, the last time."""
    return next((each["text"] for each in reversed([*findings(results, "figure")]) if each["name"] == name), "unknown")


def file_name(results: Results) -> str:
    """The name of the card, as that of a file."""
    return re.sub(r"[^a-z0-9]+", "-", figure(results, "card").lower()).strip("-")


def holds(results: Results) -> bool:
    """Whether all parts ended by themselves, and all that was asked holds."""
    ended = all(not part["ended"] for part in results["parts"])
    return ended and all(each["holds"] is not False for each in findings(results, "check", "bar"))


def verdict(results: Results) -> str:
    """One sentence."""
    said = [each["holds"] for each in findings(results, "check", "bar")]
    cut = [f"{part['name']} ({part['ended']})" for part in results["parts"] if part["ended"]]
    text = f"{said.count(True)} hold, {said.count(False)} do not, {said.count(None)} were not asked"
    return text + (f"; not at their end: {', '.join(cut)}" if cut else "")


def page(results: Results) -> str:
    """The page, in Markdown."""
    pretended = " **The GPU is pretended: this says nothing about a real one.**" if results["pretended"] else ""
    fails = [
        f"- **{each['name']}**: {each['text']}" for each in findings(results, "check", "bar") if each["holds"] is False
    ]
    lines = [
        f"# {figure(results, 'card')}",
        "",
        f"Driver {figure(results, 'driver')}, PyTorch {figure(results, 'PyTorch')}, "
        f"Python {figure(results, 'Python')}, {results['date']}, by `python -m benchmarks.gpu`.{pretended}",
        "",
        f"{verdict(results)}.",
        "",
        *fails,
        *([""] if fails else []),
        "| part | what | | found |",
        "|---|---|---|---|",
    ]
    for part in results["parts"]:
        lines += [f"| {part['name']} | {name} | {says} | {text} |" for name, says, text in _rows(part)]
    pictures = [each["name"] for each in findings(results, "file") if each["name"].endswith(".svg")]
    lines += ["", *(f"![Measured]({file_name(results)}_{name})" for name in pictures)]
    for part in results["parts"]:
        if part.get("printed"):
            lines += ["", f"What {part['name']} printed last:", "", "```", part["printed"].strip(), "```"]
    return "\n".join(lines).rstrip() + "\n"


def _rows(part: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What was found under each name, the last time; and how the part ended."""
    latest = {each["name"]: each for each in part["findings"] if each["kind"] in ("figure", "check", "bar")}
    for name, each in latest.items():
        yield name, _SAYS[each["holds"]] if "holds" in each else "", each["text"].replace("|", "\\|")
    ended = part["ended"] or "by itself"
    yield "the whole part", _SAYS[False] if part["ended"] else "", f"{ended}, after {part['seconds']:g} s"
