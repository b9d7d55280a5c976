"""Search on a page opened by double click: what is found first, and that no mouse is needed."""

import pytest

from website.pages import _sections

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

FOCUSED = "[...document.querySelectorAll('#found a')].indexOf(document.activeElement)"


@pytest.fixture
def page(site, open_page):
    found = open_page(1366, 768)
    found.goto((site / "docs" / "cheatsheet.html").as_uri())
    yield found
    assert found.problems == []


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("bubble", "docs/glossary.html#bubble"),
        ("buble", "docs/glossary.html#bubble"),  # a slip of the hand
        ("stuck", "notebooks/00_start_here.html#when-you-are-stuck"),
        ("bubb", "docs/glossary.html#bubble"),  # a word that is still being typed
    ],
)
def test_enter_goes_to_the_first_hit(page, words, where):
    page.keyboard.press("Tab")
    page.locator("header input").fill(words)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{where}")


def test_what_one_comes_for_from_work_is_found(page):
    for words, where in (("Hugging Face", "at_work.html"), ("13B", "at_work.html"), ("PyTorch pipelining", "docs/")):
        page.locator("header input").fill(words)
        page.locator("#found p", has_text="found:").wait_for()
        hits = page.evaluate("[...document.querySelectorAll('#found a')].map((hit) => hit.href)")
        assert any(where in hit for hit in hits), (words, hits)


def test_names_in_the_code_of_docs_are_found():
    body = '<h2 id="two">Two</h2><p>With PyTorch alone.</p><pre>from torch.distributed.pipelining import X</pre>'
    assert _sections("docs/a.html", "A", body) == [
        ["docs/a.html", "two", "A", "Two", "With PyTorch alone. from torch.distributed.pipelining import"]
    ]
    assert _sections("notebooks/a.html", "A", body)[0][-1] == "With PyTorch alone."


def test_all_words_have_to_be_there(page):
    page.locator("header input").fill("glossary bubble")
    page.locator("#found li").first.wait_for()
    both = page.locator("#found li").count()
    page.locator("header input").fill("bubble xylophone")
    page.locator("#found p", has_text="Nothing found.").wait_for()
    assert page.locator("#found li").count() == 0 < both


def test_what_is_shown_of_a_section_begins_and_ends_with_whole_words(page):
    page.locator("header input").fill("bubble")
    page.locator("#found li").first.wait_for()
    shown = page.evaluate("[...document.querySelectorAll('#found li')].map((hit) => hit.lastChild.textContent.trim())")
    words = set(" ".join(text for *_, text in page.evaluate("gpipeSections")).split())
    cut = [piece for piece in shown if piece.startswith("… ") and piece.endswith(" …")]
    assert cut, shown
    for piece in cut:
        assert set(piece.strip("… ").split()) <= words


def test_arrow_keys_go_through_the_hits_and_escape_closes_them(page):
    page.locator("header input").fill("bubble")
    page.locator("#found p", has_text="sections found").wait_for()
    for key, place in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowUp", 0), ("ArrowUp", -1), ("ArrowDown", 0)):
        page.keyboard.press(key)
        assert page.evaluate(FOCUSED) == place, key
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    assert page.evaluate(FOCUSED) == page.locator("#found a").count() - 1 == 9
    page.keyboard.press("Escape")
    assert page.locator("#found").is_hidden()
    assert page.evaluate("document.activeElement.type") == "search"
    assert page.locator("header input").input_value() == ""


def test_a_hit_on_the_page_itself_closes_the_list(page, site):
    page.goto((site / "docs" / "glossary.html").as_uri())
    page.locator("header input").fill("bubble")
    page.locator("#found li").first.wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary.html#bubble")
    assert page.locator("#found").is_hidden()
