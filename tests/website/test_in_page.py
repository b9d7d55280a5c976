"""The puzzle's page: what stands there before Python is up, and what it shows of what Python says.

test_typed_schedule.py has the box. Python is here CPython with the page's own host.py; test_python_in_page.py has
Python in the browser.
"""

import json
from urllib.parse import quote

import pytest

from gpipe_edu.puzzles.share import share
from tests.browser import chrome
from tests.puzzles.solutions import solved
from tests.website.conftest import ROOT, handed_out
from tests.website.stand_in import Host, pages_of_a_reader
from website import in_page, pages

pytestmark = pytest.mark.slow

FIRST = "F0@0 F0@1 F0@2 B0@2 B0@1 B0@0"
"""The first level's only solution."""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    one = Host(tmp_path_factory.mktemp("home"))
    yield one
    one.close()


@pytest.fixture
def host(process):
    process.forget()
    return process


def test_a_move_is_answered_and_what_is_solved_is_given_to_the_page(host):
    opened = host.ask("puzzle")["value"]

    def do(text):
        told = host.ask("message", widget=opened["widget"], content={"do": "type", "with": {"text": text}, "serial": 7})
        (event,) = host.events
        return json.loads(event["changed"]["answer"]), told.get("kept", "")

    refused, _ = do("B0@1")
    assert (refused["accepted"], refused["serial"]) == (False, 7)
    answer, kept = do(FIRST)
    assert answer["state"]["solved"]
    assert "first-dependency" in kept


def test_what_the_page_keeps_is_what_python_goes_on_with(host):
    kept = json.dumps({"puzzle": {}})
    assert host.ask("keep", text=kept)["kept"] == kept
    assert "error" not in host.ask("puzzle", level="first-dependency")


def test_an_error_is_a_sentence_for_the_page(host):
    assert host.ask("puzzle", level="nonsense")["error"].startswith("ValueError: level is 'nonsense'")
    assert host.ask("schedule", rows="F0 B0")["error"].startswith("TypeError")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site without lessons, whose two pages believe that there is Python."""
    out = tmp_path_factory.mktemp("pages")
    pages.build(ROOT, out, ["no notebook"], with_lab=False)
    (out / "puzzle.html").rename(out / "without.html")
    pages.write_page(out / "puzzle.html", "The puzzle", in_page.puzzle(True))
    pages.write_page(out / "explorer.html", "The explorer", in_page.box(True))
    return out


@pytest.fixture(scope="module")
def address(folder):
    with handed_out(folder) as found:
        yield found


@pytest.fixture
def open_page(new_context, address, host):
    """`open_page(name, mark)`: one page after another of the same reader; `startPython()` is when Python comes up."""
    with pages_of_a_reader(new_context, address, host.answer) as opened:
        yield opened


def says(page, words):
    page.wait_for_function("w => document.querySelector('.gp-said').innerText.includes(w)", arg=words)


def test_the_board_takes_moves_before_python_is_up_and_answers_all_of_them(open_page):
    page = open_page("puzzle.html", up=False)
    page.click('[data-op="F0@0"]')
    page.click('[data-op="B0@1"]')
    assert page.locator(".gp-board .ge-op").count() == 0
    page.evaluate("startPython()")
    says(page, "No: device 1 runs B0@1 before F0@1")
    assert page.locator(".gp-board .ge-op").count() == 1


def test_solved_levels_and_the_board_are_there_at_the_next_visit(open_page):
    page = open_page("puzzle.html")
    page.fill(".gp-text", FIRST)
    page.press(".gp-text", "Enter")
    says(page, "Solved with makespan 6, at par")
    page.click("[data-next]")
    page.wait_for_selector("text=2. Pipelining")
    page.click('[data-op="F0@0"]')
    says(page, "F0@0 placed")
    again = open_page("puzzle.html", up=False)
    again.wait_for_selector("text=2. Pipelining")
    assert again.locator(".gp-board .ge-op").count() == 1, "it stands there before Python is up"
    again.evaluate("startPython()")
    says(again, "Your unfinished board is back")
    assert "solved with makespan 6" in again.get_attribute('[data-level="first-dependency"]', "aria-label")


def test_a_link_leads_to_a_level_or_to_somebodys_board(open_page):
    page = open_page("puzzle.html", "#level=1f1b", up=False)
    page.wait_for_selector("text=One forward, one backward")
    board = solved("pipelining")
    page = open_page("puzzle.html", "#" + quote(share(board.level, board.rows)))
    page.wait_for_selector("text=2. Pipelining")
    page.wait_for_function("() => document.querySelectorAll('.gp-board .ge-op').length === 18")
    page.click("text=Share this board")
    page.click('[data-do="share"]')
    page.wait_for_function("() => decodeURIComponent(location.hash).startsWith('#gpipe1:')")


def test_a_page_without_python_and_one_opened_as_a_file_say_so(open_page, new_context, folder):
    page = open_page("without.html")
    page.click('[data-op="F0@0"]')
    page.wait_for_selector("#state:has-text('This site was built without Python')")
    with chrome.pages(new_context) as open_one:
        page = open_one()
        page.goto((folder / "puzzle.html").as_uri())
        page.click('[data-op="F0@0"]')
        page.wait_for_selector("#state:has-text('needs this page from a server')")
        assert page.problems == []


def test_neither_page_is_wider_than_a_phone(open_page):
    for name in ("puzzle.html", "explorer.html"):
        page = open_page(name)
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
