"""Charts under a slider in a browser: another value is another picture, at every width and in both themes."""

import pytest

import gpipe_edu as ge
from gpipe_edu.view import slide

from .kernel import Kernel

pytestmark = pytest.mark.slow

TEXTS = [2048, 8192, 131072]


def at_length(tokens):
    costs = ge.Costs.of_transformer(4096, tokens)
    return ge.compare(ge.simulate(ge.one_f_one_b(4, 8), costs), ge.simulate(ge.zero_bubble(4, 8), costs))


@pytest.fixture
def page(open_page, tmp_path):
    def opened(**options):
        shown = slide("tokens of a text", TEXTS, at_length, start=1)
        return Kernel(open_page(**options), shown, tmp_path / "slide.html", ready=".ge-picture svg").page

    return opened


@pytest.mark.parametrize(("width", "scheme"), [(1366, "light"), (390, "dark")])
def test_a_key_asks_for_the_picture_of_another_value(page, width, scheme, tmp_path):
    page = page(width=width, height=800, scheme=scheme)
    turned = page.get_by_role("slider", name="tokens of a text")
    assert turned.get_attribute("aria-valuetext") == "8,192"
    before = page.inner_html(".ge-picture")
    turned.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('input').getAttribute('aria-valuetext') === '131,072'")
    said = "1f1b: 33, bubble 27.3%; zero bubble: 32.0526, bubble 25.1%"
    page.wait_for_function("said => document.querySelector('[role=status]').textContent === said", arg=said)
    assert page.inner_html(".ge-picture") != before
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=tmp_path / "slide.png")
    assert page.problems == []


def test_what_is_no_row_of_values_is_refused():
    with pytest.raises(ValueError, match="values has 1 value; a slider needs two or more"):
        slide("tokens", [1], at_length)
    with pytest.raises(ValueError, match="start is 3; it must be 0 to 2"):
        slide("tokens", TEXTS, at_length, start=3)
