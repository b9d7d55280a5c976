"""Further reading: numbers and links that agree, a source for every system that a lesson names."""

import re
from pathlib import Path

import nbformat

from tests.each import each

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/further_reading.md").read_text(encoding="utf-8")
SYSTEMS = [
    *("GPipe", "PipeDream", "torchgpipe", "Megatron-LM", "ZeRO", "DualPipe", "DeepSeek-V3", "FSDP", "Llama 3"),
    *("FlashAttention", "PipeDream-2BW", "ZB-V", "breadth first", "GShard"),
    *("elective recompute", "equence parallelism", "ontext parallelism", "xpert parallelism", "oss scaling"),
    *("1F1B", "interleaved", "zero bubble", "ZB-H2", "Chimera", "DAPPLE", "Varuna", "Hanayo", "TeraPipe"),
]


def lessons():
    cells = (cell for path in ROOT.glob("notebooks/*.ipynb") for cell in nbformat.read(path, as_version=4).cells)
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_a_number_leads_to_the_paper_of_that_number():
    papers = re.findall(r"\[(\d{4}\.\d{5})\]\(https://arxiv\.org/abs/([\d.]+)\)", PAGE)
    assert len(papers) > 15
    assert all(shown == target for shown, target in papers)
    assert PAGE.count("https://") == len(papers), "a remote link that is no paper"


@each("path", sorted((ROOT / "docs").glob("*.md")))
def test_links_between_files_lead_somewhere(path):
    targets = re.findall(r"\]\((?!https?:|#)([^)\s#]+)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []


def test_rows_are_in_order_of_their_years():
    tables = [re.findall(r"^\| (\d{4}) \|", part, flags=re.MULTILINE) for part in PAGE.split("\n## ")]
    assert [years for years in tables if years] == [sorted(years) for years in tables if years]


def test_a_year_is_that_of_the_number():
    for year, number in re.findall(r"^\| (\d{4}) \|.*\[(\d{4})\.\d{5}\]", PAGE, flags=re.MULTILINE):
        assert number[:2] == year[2:]


def test_a_system_that_a_lesson_names_has_its_source():
    text = lessons()
    named = [system for system in SYSTEMS if system in text]
    assert len(named) > 8
    rows = [line for line in PAGE.splitlines() if line.startswith("|") and "](https" in line]
    assert [system for system in named if not any(system in row for row in rows)] == []


def test_the_first_and_the_last_lesson_on_papers_lead_there():
    for name in ("00_start_here", "09_beyond_gpipe", "11_reading_the_paper", "13_without_a_flush"):
        assert "docs/further_reading.md" in (ROOT / f"notebooks/{name}.ipynb").read_text(encoding="utf-8")
    assert "docs/further_reading.md" in (ROOT / "README.md").read_text(encoding="utf-8")
