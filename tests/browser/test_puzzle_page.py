"""The puzzle on a page of its own, whose kernel is the test: drag, keyboard, hints, what is said and how often."""

from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, SolvedLevels

from ..puzzles.solutions import solved
from .kernel import Kernel

pytestmark = pytest.mark.slow


@pytest.fixture
def show(open_page, tmp_path):
    """`show(key)`: the puzzle at that level, with all levels before it solved."""
    pytest.importorskip("anywidget", reason="this test needs anywidget: pip install -r requirements.txt")

    def shown(key, width=930):
        progress = SolvedLevels(tmp_path / "progress.json")
        for level in LEVELS[: [level.key for level in LEVELS].index(key)]:
            progress.record(solved(level.key))
        page = open_page(width=width, height=700)
        Kernel(page, ge.puzzle(key, progress=progress.path), tmp_path / "puzzle.html")
        return page

    return shown


def says(page, words):
    page.wait_for_function("w => document.querySelector('.gp-said').innerText.includes(w)", arg=words)


def typed(page, text):
    page.fill(".gp-text", text)
    page.press(".gp-text", "Enter")


def test_what_is_dragged_is_under_the_pointer_and_no_text_is_selected(show):
    page = show("pipelining")
    box = page.locator('[data-op="F0@0"]').bounding_box()
    lanes = page.locator(".gp-board .ge-lanes").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    x, y = lanes["x"] + 200, lanes["y"] + 35
    page.mouse.move(880, 200, steps=5)  # across the texts beside the board
    page.mouse.move(x, y, steps=5)
    ghost = page.locator(".gp-flying").bounding_box()
    assert page.inner_text(".gp-flying") == "F0"
    assert 0 <= ghost["x"] - x <= 20
    assert 0 <= ghost["y"] - y <= 20
    assert page.evaluate("() => getSelection().toString()") == ""
    page.mouse.up()
    says(page, "F0@0 placed on device 0")
    assert page.locator(".gp-flying").count() == 0
    assert page.evaluate("() => getSelection().toString()") == ""
    # And an op that is on the board already, let go outside: it stays.
    box = page.locator(".gp-board .ge-op").first.bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(700, 500, steps=5)
    assert page.inner_text(".gp-flying") == "F0"
    page.keyboard.press("Escape")
    assert page.locator(".gp-flying").count() == 0
    page.mouse.up()


def test_an_empty_board_says_where_to_begin(show):
    page = show("first-dependency")
    says(page, "Click F0 in the row of device 0")
    assert "click F0 below" in page.inner_html(".gp-board")
    page.click('[data-op="F0@0"]')
    says(page, "F0@0 placed on device 0.")
    assert "click F0" not in page.inner_html(".gp-board")


def test_that_it_is_solved_is_said_once(show):
    page = show("first-dependency")
    typed(page, "F0@0 F0@1 F0@2 B0@2 B0@1 B0@0")
    says(page, "Solved with makespan 6, at par")
    assert page.inner_text(".ge-puzzle").lower().count("solved with makespan") == 1
    assert page.is_visible("[data-next]")


def test_a_whole_board_is_downloaded_as_csv_with_what_torchtitan_is_told(show):
    page = show("first-dependency")
    page.click("text=Share this board")
    page.click('[data-do="csv"]')
    says(page, "nothing to write yet")
    typed(page, "F0@0 F0@1 F0@2 B0@2 B0@1 B0@0")
    says(page, "Solved")
    with page.expect_download() as saved:
        page.click('[data-do="csv"]')
    assert saved.value.suggested_filename == "first-dependency.csv"
    assert Path(saved.value.path()).read_text() == ge.naive(3, 1).to_csv()
    says(page, "The board is saved as PyTorch's pipeline CSV")
    assert page.inner_text(".gp-csv code").endswith("--parallelism.pipeline_parallel_schedule_csv first-dependency.csv")
    page.click('[data-do="undo"]')
    says(page, "Taken back")
    assert not page.is_visible(".gp-csv")


def test_a_dead_end_has_a_button_that_leads_out_of_it(show):
    page = show("pipelining")
    typed(page, "F0@0 F0@1 F0@2 B0@2 B0@1 B0@0")
    says(page, "placed")
    page.click('[data-size="1"]')
    page.click('.gp-said [data-do="back"]')
    says(page, "taken back")
    page.click('[data-size="1"]')
    says(page, "Look at device")


def test_hints_leave_a_mark_on_the_level(show):
    page = show("first-dependency")
    page.click('[data-size="3"]')
    says(page, "Place F0@0")
    page.click('[data-do="finish"]')
    says(page, "with 7 hints")
    assert "with makespan 6 and 7 hints" in page.get_attribute('[data-level="first-dependency"]', "aria-label")
    assert page.inner_text('[data-level="first-dependency"]').strip().endswith("?")


def test_run_on_and_stamp_by_keyboard(show):
    page = show("pipelining")
    page.focus('[data-do="run_on"]')
    page.keyboard.press("Enter")
    says(page, "7 ops placed; device 2 has a choice")
    page.click('[data-do="clear"]')
    says(page, "The board is empty. Click F0")
    typed(page, "F0@0 F0@1 F0@2 B0@2 B0@1 B0@0")
    says(page, "placed")
    page.focus('[data-do="stamp"]')
    page.keyboard.press("Space")
    says(page, "you built 1F1B")


def test_any_level_can_be_gone_to_at_once(show):
    page = show("first-dependency")
    page.click('[data-level="backward-twice"]')
    says(page, "Level: ")
    assert page.get_attribute('[data-level="backward-twice"]', "aria-current") == "step"
    assert page.locator(".gp-chip[aria-disabled]").count() == 0


def test_a_deadlock_in_free_editing_is_a_circle_on_the_board(show):
    page = show("memory-wall")
    page.check('[data-tick="free"]')
    says(page, "Free")
    typed(page, "0: F0 B0 F1 B1")
    says(page, "placed")
    typed(page, "1: F0 F1 B1 B0")
    page.wait_for_selector(".ge-wait", state="attached")
    assert page.locator(".ge-wait").count() == page.locator(".ge-turn").count() == 2
    assert "deadlock" in page.inner_text(".gp-problems")
