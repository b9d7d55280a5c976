"""The puzzle in real hosts: solved by keyboard alone, refused moves, undo, share strings, what is remembered."""

import pytest

from gpipe_edu.puzzles import LEVELS, SolvedLevels

from ..puzzles.solutions import solved
from . import chrome

pytestmark = pytest.mark.slow

SAID = ".gp-said"


def opened(host, name, levels=3):
    """A puzzle of that name, a learner's who has solved so many levels; what it has kept already stays."""
    progress = SolvedLevels(host.folder / f"{name}.json")
    if not progress.path.exists():
        for level in LEVELS[:levels]:
            progress.record(solved(level.key))
    page = host.run_all(name, f"import gpipe_edu as ge\nge.puzzle(progress={str(progress.path)!r})", "")
    page.wait_for_selector(".gp-board .ge-base")
    page.evaluate("() => document.fonts.ready.then(() => null)")  # from here on nothing moves by itself
    return page


def rows(page):
    """How many ops the board says are on it."""
    return page.evaluate(r"() => document.querySelector('.gp-board [aria-label]').ariaLabel.match(/\d+/)[0]")


def tab_to(page, selector):
    """By Tab alone, from wherever the focus is."""
    for _ in range(60):
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab never comes to {selector}")


def says(page, words):
    page.wait_for_function("w => document.querySelector('.gp-said').innerText.includes(w)", arg=words)


def typed(page, text):
    tab_to(page, ".gp-text")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def test_the_first_level_by_keyboard_alone_and_a_restart_forgets_nothing(lab):
    page = opened(lab, "keys", levels=0)
    cells = chrome.cells(page)
    page.focus(".gp-chip")
    tab_to(page, ".gp-op")
    page.keyboard.press("Enter")
    says(page, "F0@0 placed on device 0")
    for steps in ("ArrowDown", "ArrowDown", "", "", ""):  # where a row is empty, the focus goes to the next one up
        if steps:
            page.keyboard.press(steps)
        count = int(rows(page))
        page.keyboard.press("Enter")
        page.wait_for_function(
            "n => document.querySelector('.gp-board [aria-label]').ariaLabel.startsWith(`Board: ${n} op`)",
            arg=count + 1,
        )
    says(page, "Solved with makespan 6, at par")
    assert page.evaluate("() => document.activeElement.closest('.gp-solved') !== null"), "the focus stays in the puzzle"
    page.keyboard.press("Enter")
    page.wait_for_selector(".gp-run .ge-base rect", state="attached")
    assert page.locator(".gp-run .ge-panel").count() == 2, "measured beside planned"
    assert "the gradients are the same as on one device" in page.inner_text(".gp-run")
    tab_to(page, "[data-next]")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=2. Pipelining")
    for key in ("j", "a", "b", "d", "d"):
        page.keyboard.press(key)
    assert chrome.cells(page) == cells
    page.keyboard.press("Enter")
    says(page, "F0@0 placed on device 0")
    assert chrome.our_problems(page) == []
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    opened(lab, "keys", levels=0)
    page.wait_for_selector("text=2. Pipelining")
    says(page, "Your unfinished board is back; Clear empties it.")
    assert rows(page) == "1"
    assert "solved with makespan 6" in page.get_attribute('[data-level="first-dependency"]', "aria-label")


def test_a_solved_board_stays_until_the_keys_that_run_the_cell_are_pressed_twice(lab):
    page = opened(lab, "stays", levels=0)
    page.evaluate("() => { jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    page.focus(".gp-chip")
    typed(page, "F0@0 F0@1 F0@2 B0@2 B0@1 B0@0")
    says(page, "Solved with makespan 6")
    runs = "() => jupyterapp.shell.currentWidget.content.widgets[0].model.executionCount"
    was = page.evaluate(runs)
    page.focus(".gp-solved button")  # in a field for text JupyterLab takes no keys that run the cell
    page.keyboard.press("Control+Enter")
    says(page, "press the keys once more")
    assert (page.evaluate(runs), rows(page)) == (was, "6")
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"(was) => ({runs})() > was", arg=was)
    assert chrome.our_problems(page) == []


def test_1f1b_by_keyboard_alone_typed_and_carried(lab):
    page = opened(lab, "rows")
    page.focus(".gp-chip")
    typed(page, "F0@0 F0@1 F0@2 B0@2 F1@0 F1@1 F1@2 B1@2 F2@0")
    says(page, "F2@0 placed.")
    typed(page, "B0@1 F2@1 F2@2 B2@2 B1@1")
    says(page, "B1@1 placed.")
    # On device 0, B0 comes behind F2; then it is carried in front of F2 and back again.
    typed(page, "B0@0")
    says(page, "B0@0 placed.")
    page.focus(".gp-board .ge-lanes")
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "Enter", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    says(page, "B0@0 moved to device 0")
    page.keyboard.press("Control+z")
    says(page, "Taken back")
    tab_to(page, ".gp-text")
    typed(page, "F3@0 F3@1 F3@2 B3@2 B2@1 B3@1 B1@0 B2@0 B3@0")
    says(page, "you built 1F1B")
    assert chrome.our_problems(page) == []


def test_a_refused_move_says_why_and_shakes_nothing(lab):
    page = opened(lab, "refused")
    places = [page.locator(part).bounding_box() for part in (".gp-palette", ".gp-text")]
    page.click('[data-op="B0@1"]')
    says(page, "No: device 1 runs B0@1 before F0@1")
    assert page.get_attribute(SAID, "aria-live") == "polite"
    assert [page.locator(part).bounding_box() for part in (".gp-palette", ".gp-text")] == places
    assert rows(page) == "0"


def test_by_hand_undo_redo_and_a_cut_share_string(lab):
    page = opened(lab, "hand")
    page.check('[data-tick="ghosts"]')
    lanes = page.locator(".gp-board .ge-lanes").bounding_box()
    ghost = page.locator(".gp-ghost").first.bounding_box()
    page.mouse.click(ghost["x"] + 10, ghost["y"] + 10)
    says(page, "F0@0 placed")
    page.click('[data-op="F1@0"]')
    says(page, "F1@0 placed")
    drag(page, page.locator(".gp-board .ge-op").nth(1).bounding_box(), lanes["x"] + 60, ghost["y"] + 10)
    says(page, "F1@0 moved")
    assert page.eval_on_selector_all(".gp-board .ge-label", "all => all.map(x => x.textContent)")[:2] == ["F1", "F0"]
    drag(page, page.locator('[data-op="F2@0"]').bounding_box(), lanes["x"] + 60, ghost["y"] + 10)
    says(page, "F2@0 placed")
    assert page.eval_on_selector_all(".gp-board .ge-label", "all => all.map(x => x.textContent)")[0] == "F2"
    page.click('[data-do="undo"]')
    says(page, "Taken back")
    assert rows(page) == "2"
    page.click('[data-do="redo"]')
    says(page, "Made again")
    assert rows(page) == "3"
    page.click("text=Share this board")
    page.click('[data-do="share"]')
    page.wait_for_function("() => document.querySelector('.gp-string').value.startsWith('gpipe1:')")
    whole = page.input_value(".gp-string >> nth=0")
    page.click('[data-do="clear"]')
    says(page, "The board is empty")
    page.fill("[data-open]", whole[:-3])
    page.press("[data-open]", "Enter")
    says(page, "cut or altered")
    page.fill("[data-open]", whole)
    page.press("[data-open]", "Enter")
    says(page, "One forward, one backward")
    assert rows(page) == "3"
    page.check('[data-tick="free"]')
    says(page, "Free")
    page.fill(".gp-text", "2: B3")
    page.press(".gp-text", "Enter")
    page.wait_for_selector(".gp-problems li")
    assert "B3@2" in page.inner_text(".gp-problems")
    assert page.locator(".gp-stuck").count() == 1
    assert "Traceback" not in page.inner_text("body")
    assert chrome.our_problems(page) == []


def drag(page, box, x, y):
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(x + 40, y, steps=4)
    page.mouse.move(x, y, steps=4)
    page.mouse.up()


def test_every_control_has_a_name_and_keeps_its_keys(lab):
    page = opened(lab, "hand")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('.ge-puzzle :is(input, button, summary, [tabindex])')].filter(part => {
            const label = part.getAttribute('aria-label') || part.labels?.[0]?.textContent || part.textContent;
            return !label?.trim() || part.dataset.lmSuppressShortcuts !== 'true';
        }).map(part => part.outerHTML)"""
    )
    assert nameless == []


def test_notebook_7_gets_no_key(notebook):
    page = opened(notebook, "keys", levels=0)
    before = chrome.cells(page)
    page.focus(".gp-op")
    for key in ("j", "a", "b", "d", "d", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    says(page, "No: F0@1")
    page.focus(".gp-board .ge-lanes")
    for key in ("a", "b", "ArrowRight", "d", "d", "Escape", "x"):
        page.keyboard.press(key)
    page.focus(".gp-text")
    page.keyboard.type("F0@0 ")
    page.keyboard.press("Enter")
    says(page, "F0@0 placed")
    assert chrome.cells(page) == before
    assert chrome.our_problems(page) == []
