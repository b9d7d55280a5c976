"""Glossary terms explain themselves where they are used: a link to one has its definition as its title.

The definition is the first sentence of the glossary's entry. `build` copies it into lessons and exercises, so it is
maintained in one place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LINK: Final = re.compile(r'\]\((?P<target>[^)\s]*glossary\.md#(?P<anchor>[\w-]+))(?: "[^"]*")?\)')
_MARKED: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def definitions(glossary: Path) -> dict[str, str]:
    """The first sentence of each entry, as plain words, by the entry's anchor; {} where there is no glossary."""
    found: dict[str, str] = {}
    if not glossary.is_file():
        return found
    for entry in re.split(r"^## ", glossary.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        term, _, text = entry.partition("\n")
        words = " ".join(_MARKED.sub(r"\1", text.strip().partition("\n\n")[0]).split())
        sentence = re.split(r"(?<=[.?]) (?=[A-Z0-9\"(])", words)[0]
        found[anchor(term)] = re.sub(r"[*`]", "", sentence).replace('"', "'")
    return found


def anchor(heading: str) -> str:
    """The anchor that code hosts give a heading: lower case, no punctuation, - for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def add_definitions(text: str, known: Mapping[str, str]) -> str:
    """The Markdown with the current definitions as the titles of its links to the glossary."""
    return _LINK.sub(lambda link: "](" + link["target"] + _title(known.get(link["anchor"], "")) + ")", text)


def define_terms(root: Path) -> list[Path]:
    """Write the current definitions into the lessons; returns the lessons that changed."""
    known = definitions(root / "docs" / "glossary.md")
    changed = []
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        text = path.read_text(encoding="utf-8")
        notebook = json.loads(text)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = add_definitions("".join(cell["source"]), known).splitlines(keepends=True)
        new = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        if new != text:
            path.write_text(new, encoding="utf-8")
            changed.append(path)
    return changed


def _title(words: str) -> str:
    return f' "{words}"' if words else ""
