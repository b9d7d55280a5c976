"""Links of pages and notebooks: a relative one leads to a file, and to a heading of it; others are well formed.

Whether another host has what a link asks of it is not asked: tests need no network.
"""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from gpipe_edu.course.building.build import anchor
from gpipe_edu.course.building.workspace import FOLDERS
from tests import processes
from tests.each import each

ROOT = Path(processes.ROOT)
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "gpipe_edu/**/*.md", "tests/**/*.md", "website/**/*.md")
    for path in ROOT.glob(pattern)
)
NOTEBOOKS = sorted([*ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("exercises/*.ipynb")])


def text_of(path):
    """The Markdown of a page or a notebook, without code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return CODE.sub("", text)


def headings(path):
    """The anchors of a page, as hosts make them: what a heading links to is left out."""
    found = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S), re.M
    )
    return {anchor(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).strip()) for one in found}


def lost(path, target):
    """Why a link leads nowhere; "" if it leads somewhere, as far as that can be told here."""
    parts = urlsplit(target)
    if parts.scheme:
        well = parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc)
        return "" if well else "not an https address"
    to = (path.parent / parts.path).resolve() if parts.path else path
    if not to.exists():
        return "no such file"
    if not to.is_relative_to(ROOT):
        return "outside of the project"
    if parts.fragment and to.suffix == ".md" and parts.fragment not in headings(to):
        return "no such heading"
    return "an anchor in a notebook, which hosts make differently" if parts.fragment and to.suffix == ".ipynb" else ""


@each("path", [*PAGES, *NOTEBOOKS])
def test_links_lead_somewhere(path):
    found = [link["target"] for link in LINK.finditer(text_of(path))]
    assert [(target, why) for target in found if (why := lost(path, target))] == []


@each("path", [*ROOT.glob("docs/**/*.md"), *NOTEBOOKS])
def test_links_of_what_learners_get_a_copy_of_stay_within_the_copy(path):
    targets = [urlsplit(link["target"]) for link in LINK.finditer(text_of(path))]
    files = [(path.parent / target.path).resolve() for target in targets if target.path and not target.scheme]
    assert [file for file in files if file.relative_to(ROOT).parts[0] not in FOLDERS] == []


def test_a_link_to_what_is_gone_is_found():
    page = ROOT / "README.md"
    for target, why in {
        "docs/none.md": "no such file",
        "docs/glossary.md#none": "no such heading",
        "http://arxiv.org": "not an https address",
        "https://arxiv": "not an https address",
        "../elsewhere": "no such file",
        "notebooks/00_start_here.ipynb#play": "an anchor in a notebook, which hosts make differently",
    }.items():
        assert lost(page, target) == why
    assert (
        lost(page, "docs/glossary.md#stage")
        == lost(page, "#in-two-cells")
        == lost(page, "https://arxiv.org/abs/1")
        == ""
    )
    assert LINK.search(text_of(page))
