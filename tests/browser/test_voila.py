"""The explorer and the puzzle as Voila pages: no notebook around it, a kernel behind it."""

import pytest

from . import chrome, servers

pytestmark = pytest.mark.slow


def test_the_explorer_on_a_page_of_its_own(jupyter, open_page):
    page = opened(jupyter, open_page, "explorer", "import gpipe_edu as ge\nge.gantt(ge.gpipe(3, 4))")
    page.wait_for_selector(".ge-base rect", state="attached")
    assert "18" in page.inner_text(".ge-figures")
    page.focus('.ge-controls input[type="range"][data-name="M"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('21')")
    assert chrome.our_problems(page) == []


def test_the_puzzle_on_a_page_of_its_own(jupyter, open_page, tmp_path):
    progress = str(tmp_path / "own.json")
    page = opened(jupyter, open_page, "puzzle", f"import gpipe_edu as ge\nge.puzzle(progress={progress!r})")
    page.click('[data-op="F0@0"]')
    page.wait_for_function("() => document.querySelector('.gp-said').innerText.includes('F0@0 placed')")
    assert chrome.our_problems(page) == []


def opened(jupyter, open_page, name, cell):
    pytest.importorskip("voila", reason="this test needs Voila: pip install -r requirements-dev.txt")
    folder, address = jupyter
    servers.notebook(folder, name, cell)
    page = open_page()
    page.goto(f"{address}/voila/render/{name}.ipynb?token={servers.TOKEN}")
    return page
