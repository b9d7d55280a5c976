"""What every notebook keeps to: its size, its form, stored without outputs, nothing remote, links that lead somewhere.

That the cells run is nbval's part (pytest collects notebooks/ with it).
"""

import re
import statistics
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NUMPY_ONLY = {"01_memory_wall", "02_splitting", "03_scheduling"}

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def prose(source):
    """The words one reads: no code blocks, no tags, no bare numbers or signs."""
    text = re.sub(r"```.*?```|<[^>]+>", " ", source, flags=re.DOTALL)
    return [word for word in text.split() if re.search(r"[A-Za-z]", word)]


def cells(path, kind):
    return [cell for cell in read(path).cells if cell.cell_type == kind]


def test_it_is_valid_and_stored_without_outputs_counts_or_widget_state(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert "widgets" not in notebook.metadata
    assert notebook.metadata.kernelspec.name == "python3"
    for cell in cells(path, "code"):
        assert cell.outputs == []
        assert cell.execution_count is None
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)


def test_its_size_is_one_sitting(path):
    assert 40 <= len(read(path).cells) <= 70
    words = sum(len(prose(cell.source)) for cell in cells(path, "markdown"))
    assert 900 <= words <= 1600, words
    lines = [len(cell.source.splitlines()) for cell in cells(path, "code")]
    assert max(lines) <= 15
    assert statistics.median(lines) <= 5


def test_it_opens_with_a_promise_minutes_and_what_one_needs(path):
    first = read(path).cells[0].source
    assert first.startswith("# ")
    assert re.search(r"\d+ minutes", first)
    assert "able to" in first
    assert re.search(r"need", first)


def test_claims_are_asserted_and_no_line_hides_its_result(path):
    code = [cell.source for cell in cells(path, "code")]
    assert sum("assert" in source for source in code) >= 8
    assert not any(source.rstrip().endswith(";") for source in code)


def test_links_and_images_are_local_and_lead_somewhere(path):
    for cell in cells(path, "markdown"):
        for mark, text, target in re.findall(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", cell.source):
            if mark:
                assert text.strip(), f"an image without alt text: {target}"
                assert "://" not in target, f"a remote image: {target}"
            if "://" not in target and not target.startswith("#"):
                assert (path.parent / target.partition("#")[0]).exists(), target
        assert "<img" not in cell.source
        assert "<script" not in cell.source


def test_lessons_on_schedules_need_no_torch(path):
    if path.stem in NUMPY_ONLY:
        assert not any(re.search(r"import torch|gpipe_edu.pytorch", cell.source) for cell in cells(path, "code"))
