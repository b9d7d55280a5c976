"""What one touches and what one reads are on one screen: a laptop of 1366 x 768 leaves a notebook 930 x 647 pixels."""

import pytest

import gpipe_edu as ge
from gpipe_edu.puzzles import LEVELS, SolvedLevels

from ..puzzles.solutions import solved
from .kernel import Kernel

pytestmark = pytest.mark.slow

WIDTH, MOST = 930, 600
VISIBLE = 647
MARGIN = 16
"""What JupyterLab puts around an output, with room to spare."""


@pytest.fixture
def show(open_page, tmp_path):
    """`show(chart, width)`: the chart on a page of its own, from edge to edge."""
    pytest.importorskip("anywidget", reason="this test needs anywidget: pip install -r requirements.txt")

    def shown(chart, width=WIDTH, **options):
        page = open_page(width=width, height=768, **options)
        Kernel(page, chart, tmp_path / "chart.html")
        return page

    return shown


def puzzle(tmp_path, key):
    """The puzzle at a level, with all levels open."""
    progress = SolvedLevels(tmp_path / "progress.json")
    for level in LEVELS[:-1]:
        progress.record(solved(level.key))
    return ge.puzzle(key, progress=progress.path)


def bottom(page, selector):
    """Where the last element of that kind ends, in pixels from the top of the widget."""
    return page.evaluate(
        "s => Math.max(...[...document.querySelectorAll(s)].map(x => x.getBoundingClientRect().bottom))", selector
    )


def cut_off(page):
    """What stands outside of the page's width."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.ge-gantt :is(label, button, input, select, h3, li, p, svg text)')]
            .filter(x => x.getBoundingClientRect().width && !x.closest('.ge-live'))
            .filter(x => x.getBoundingClientRect().right > innerWidth + 1 || x.getBoundingClientRect().left < -1)
            .map(x => x.textContent || x.outerHTML)"""
    )


def rows_of_controls(page):
    """Where rows of the explorer's controls begin."""
    return page.eval_on_selector_all(
        ".ge-controls :is(label, button, .ge-count)",
        "all => [...new Set(all.filter(x => x.offsetHeight).map(x => x.offsetTop))]",
    )


@pytest.mark.parametrize(
    "given",
    [ge.gpipe(4, 8), ge.interleaved(4, 8, 2), ge.zero_bubble(4, 8), ge.combined_one_f_one_b(4, 8, 2)],
    ids=lambda schedule: schedule.name,
)
def test_the_explorer_fits(show, given):
    page = show(ge.gantt(given))
    assert bottom(page, ".ge-gantt") <= MOST
    assert len(rows_of_controls(page)) == 2, "controls in two rows"


def test_what_hides_of_a_block_is_asked_where_there_are_blocks(show):
    page = show(ge.gantt(ge.dual_pipe_v(4, 8)))
    box = page.get_by_label("Share of the shorter op of a block that hides behind the longer one")
    assert "54" in page.inner_text(".ge-figures")
    assert len(rows_of_controls(page)) == 2
    box.fill("1")
    page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('44')")
    page.select_option('[data-name="schedule"]', "gpipe")
    box.wait_for(state="hidden")
    assert page.problems == []


def test_the_answer_stands_above_what_one_points_at_and_nothing_moves(show):
    page = show(ge.gantt(ge.gpipe(4, 8)))
    lanes = page.locator(".ge-lanes").bounding_box()
    for x, y in ((0.4, 30), (0.2, 100), (0.5, 230), (0.3, 160)):
        page.mouse.move(lanes["x"] + x * lanes["width"], lanes["y"] + y)
        page.wait_for_function("() => !document.querySelector('.ge-explain .ge-hint')")
        assert bottom(page, ".ge-explain") <= lanes["y"] <= VISIBLE
        assert page.locator(".ge-lanes").bounding_box() == lanes, "the chart stays under the pointer"
        assert page.eval_on_selector(".ge-explain", "x => x.scrollHeight <= x.clientHeight")


def test_two_charts_fit_and_the_one_that_is_edited_stands_first(show):
    page = show(ge.gantt(ge.gpipe(4, 8), ge.one_f_one_b(4, 8)))
    assert bottom(page, ".ge-lanes") <= VISIBLE
    assert bottom(page, ".ge-transport") <= VISIBLE - MARGIN
    page = show(ge.gantt(ge.gpipe(4, 8)), WIDTH + 1)
    page.click("[data-do=keep]")
    page.wait_for_function("() => document.querySelectorAll('.ge-panel').length === 2")
    page.select_option('[data-name="schedule"]', "1f1b")
    page.wait_for_function("() => document.querySelector('.ge-title').innerText.startsWith('1f1b')")
    assert bottom(page, ".ge-transport") <= VISIBLE - MARGIN, "both rows of buttons"
    assert not page.is_checked('[data-toggle="memory"]')
    page.click("[data-do=keep]")
    page.wait_for_function("() => document.querySelectorAll('.ge-panel').length === 1")
    assert page.is_checked('[data-toggle="memory"]'), "alone it has its lanes of memory again"


@pytest.mark.parametrize("recompute", [None, "late"], ids=["alike", "with recompute"])
def test_two_charts_and_what_is_said_of_their_difference_fit(show, recompute):
    page = show(ge.gantt(ge.simulate(ge.one_f_one_b(4, 8)), ge.simulate(ge.gpipe(4, 8, recompute))))
    assert bottom(page, ".ge-gantt") <= VISIBLE - MARGIN


def test_a_still_picture_of_three_fits():
    picture = ge.compare(*(ge.gpipe(4, 8, recompute) for recompute in (None, "late", "early")), critical_path=True)
    assert picture.layout.height * WIDTH / picture.layout.width <= VISIBLE - MARGIN


def test_start_again_resets_all(show):
    page = show(ge.gantt(ge.gpipe(4, 8)))
    page.click("[data-do=keep]")
    page.select_option('[data-name="schedule"]', "naive")
    page.fill('[data-name="B"]', "5")
    page.click("[data-do=uneven]")
    page.fill('[data-name="factors"] >> nth=1', "3")
    page.get_by_label("critical path").check()
    page.get_by_label("transfers").uncheck()
    page.get_by_label("show as table").check()
    page.select_option("[data-speed]", "4")
    page.click('[data-do="first"]')
    page.mouse.click(300, 320)
    page.click("[data-do=reset]")
    page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('33')")
    assert page.locator(".ge-panel").count() == 1
    assert page.inner_text("[data-do=keep]") == "Keep to compare"
    assert page.input_value('[data-name="B"]') == "2"
    assert not page.is_visible(".ge-factors")
    assert page.is_checked('[data-toggle="memory"]')
    assert page.is_checked('[data-toggle="arrows"]')
    assert not page.is_checked('[data-toggle="critical"]')
    assert not page.is_visible(".ge-table")
    assert page.input_value("[data-speed]") == "1"
    assert page.inner_text(".ge-time") == "33 of 33"
    assert page.is_visible(".ge-explain .ge-hint"), "nothing is selected"


@pytest.mark.parametrize("width", [390, 465], ids=["a phone", "a laptop at 200 %"])
def test_nothing_is_lost_on_a_narrow_screen(show, width):
    page = show(ge.gantt(ge.interleaved(4, 8, 2)), width)
    assert cut_off(page) == []


def test_what_a_device_holds_is_written_in_full(show):
    page = show(ge.gantt(ge.gpipe(2, 100)))
    left, panel = page.evaluate(
        """() => [[...document.querySelectorAll('.ge-note')].find(x => x.textContent.startsWith('holds'))
            .getBoundingClientRect().left, document.querySelector('.ge-lanes').getBoundingClientRect().left]"""
    )
    assert left >= panel


@pytest.mark.sweep
@pytest.mark.parametrize("key", [level.key for level in LEVELS])
def test_the_puzzle_fits(show, tmp_path, key):
    page = show(puzzle(tmp_path, key))
    assert bottom(page, ".ge-puzzle") <= MOST
    board = page.locator(".gp-board .ge-lanes").bounding_box()
    for part in (".gp-said", ".gp-group"):
        box = page.locator(part).bounding_box()
        assert box["x"] >= board["x"] + board["width"], "message and hints stand beside the board"


@pytest.mark.parametrize("width", [390, 465], ids=["a phone", "a laptop at 200 %"])
def test_nothing_of_the_puzzle_is_lost_on_a_narrow_screen(show, tmp_path, width):
    page = show(puzzle(tmp_path, "recompute-early"), width)
    assert cut_off(page) == []


def test_charts_that_one_only_looks_at_start_without_the_arrows_of_transfers(show):
    page = show(ge.gantt(ge.simulate(ge.gpipe(3, 2)), ge.simulate(ge.one_f_one_b(3, 2))))
    assert not page.is_checked('[data-toggle="arrows"]')
    assert page.locator(".ge-arrow").count() == 0
    page.get_by_label("transfers").check()
    page.wait_for_selector(".ge-arrow")
