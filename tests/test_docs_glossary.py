"""The glossary: short entries in order, links that resolve, and both ways between a term and its lessons."""

import re
from pathlib import Path

from tests.each import each

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
TERMS = {
    part.partition("\n")[0]: part.partition("\n")[2].strip() for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
}


def anchor(heading):
    """What a page makes of a heading: small letters, no signs, - for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


ANCHORS = {anchor(term) for term in TERMS}


def test_terms_stand_in_order_and_have_anchors_of_their_own():
    assert list(TERMS) == sorted(TERMS, key=str.lower)
    assert len(ANCHORS) == len(TERMS)


@each("term", TERMS)
def test_an_entry_is_short_and_its_links_resolve(term):
    text = TERMS[term].partition("\n\nLesson")[0]
    assert 1 <= len(re.findall(r"[.?](?=\s|$)", text.replace("et al.", ""))) <= 3
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert {target for target in targets if target.startswith("#")} <= {f"#{name}" for name in ANCHORS}
    assert f"#{anchor(term)}" not in targets, "a link to itself"


@each("term", TERMS)
def test_a_lesson_that_it_names_links_back(term):
    lessons = TERMS[term].partition("\n\nLesson")[2]
    for number, target in re.findall(r"\[(\d\d)\]\(\.\./([^)]+)\)", lessons):
        notebook = ROOT / target
        assert notebook.name.startswith(number)
        assert re.search(rf"glossary\.md#{anchor(term)}[) ]", notebook.read_text(encoding="utf-8")), notebook.name


def test_most_terms_name_a_lesson():
    assert sum("\n\nLesson" in text for text in TERMS.values()) > 0.8 * len(TERMS)
