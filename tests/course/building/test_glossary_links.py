"""Every link to the glossary tells the first sentence of its entry, as it stands there today."""

from pathlib import Path

import nbformat

from gpipe_edu.course.building.build import add_definitions, define_terms, definitions
from tests.each import each

ROOT = Path(__file__).resolve().parents[3]
KNOWN = definitions(ROOT / "docs/glossary.md")
LINK = "[stages](../docs/glossary.md#stage)"


def test_a_link_gets_its_definition_and_an_outdated_one_is_replaced():
    said = "A run of consecutive layers that live on one device; there are K such runs."
    titled = f'[stages](../docs/glossary.md#stage "{said}")'
    assert add_definitions(f"so **{LINK}**, and", KNOWN) == f"so **{titled}**, and"
    assert add_definitions(titled.replace("A run", "Some"), KNOWN) == titled
    assert add_definitions("[a](b.md#stage)", KNOWN) == "[a](b.md#stage)"


def test_definitions_are_one_plain_sentence_each():
    assert len(KNOWN) > 40
    for words in KNOWN.values():
        assert 10 < len(words) < 200, words
        assert not set('*`"[]') & set(words), words


@each("path", sorted(ROOT.glob("notebooks/*.ipynb")))
def test_lessons_have_the_definitions_of_today(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert add_definitions(cell.source, KNOWN) == cell.source, "run: python -m gpipe_edu build"


def test_it_is_written_once(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "docs/glossary.md").write_text("# G\n\n## stage\n\nSome *layers*. More.\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(LINK), nbformat.v4.new_code_cell(LINK)])
    nbformat.write(notebook, tmp_path / "notebooks/a.ipynb")
    assert define_terms(tmp_path) == [tmp_path / "notebooks/a.ipynb"]
    found = nbformat.read(tmp_path / "notebooks/a.ipynb", as_version=4).cells
    assert [cell.source for cell in found] == ['[stages](../docs/glossary.md#stage "Some layers.")', LINK]
    assert define_terms(tmp_path) == []
