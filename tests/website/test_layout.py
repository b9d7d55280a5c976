"""What one sees first: nothing moves while a page loads, Play is in sight, and little is fetched."""

import gzip

import pytest

from tests.website.conftest import TIMES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("with_lab")]

LAPTOP, PHONE = (1366, 768), (390, 800)
LESSONS = ["notebooks/00_start_here.html", "notebooks/03_scheduling.html", "notebooks/06_pytorch_pipeline.html"]
PAGES = ["index.html", "explorer.html", "puzzle.html", "exercises/exercise_01_splitting.html", *LESSONS]

COUNT = """
window.shifted = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const what = entry.sources.map(({ node }) => node?.outerHTML?.slice(0, 80));
    if (!entry.hadRecentInput) shifted.push([entry.value, ...what]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""
NO_LATER = """
const later = window.setTimeout;
window.setTimeout = (run, wait, ...more) => later(run, wait > 2000 ? 1e9 : wait, ...more);
"""
CHART = ".ge-base rect, .ge-base path"


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_moves_while_a_page_loads_and_is_scrolled(address, open_page, name, size):
    """Cumulative Layout Shift, of which 0.1 counts as good."""
    page = open_page(*size)
    page.add_init_script(COUNT)
    page.goto(f"{address}{name}")
    page.wait_for_load_state("networkidle")
    for _ in range(16):
        page.evaluate("scrollBy({ top: innerHeight * 0.8, behavior: 'instant' })")
        page.wait_for_timeout(200)
    moved = page.evaluate("shifted")
    total = sum(value for value, *_ in moved)
    TIMES[f"{name}, {size[0]} pixels wide: layout shift"] = f"{total:.3f}"
    assert total < 0.02, moved


def test_the_banner_above_a_lesson_is_one_row(address, open_page):
    page = open_page(*LAPTOP)
    for name in LESSONS:
        page.goto(f"{address}{name}")
        assert page.locator(".banner").bounding_box()["height"] < 64, name


@pytest.mark.parametrize("name", ["index.html", "explorer.html", *LESSONS])
def test_play_is_in_sight_with_the_first_chart(address, open_page, name):
    """On the landing page and the explorer's without scrolling, in a lesson when one has scrolled to the chart."""
    page = open_page(*LAPTOP)
    page.goto(f"{address}{name}")
    while page.locator(".unfold").count():
        page.locator(".unfold").first.click()
    for _ in range(2 if name in LESSONS else 0):  # a chart that is far below is drawn when one comes near it
        page.locator("iframe.live").first.evaluate("(frame) => frame.scrollIntoView({ block: 'start' })")
        page.frame_locator("iframe.live").first.locator(CHART).first.wait_for(state="attached")
    play = page.frame_locator("iframe.live").first.locator('[data-do="play"]')
    box = play.bounding_box()
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= LAPTOP[1]


def test_the_landing_page_is_small_before_anything_is_touched(site, address, open_page):
    """Compressed as a code host does it; Python, which may be fetched later, waits for a touch or three seconds."""
    page = open_page(*LAPTOP)
    page.add_init_script(NO_LATER)
    page.goto(address)
    page.wait_for_load_state("networkidle")
    paths = {
        url.partition("?")[0].removeprefix(address) or "index.html" for url in page.requests if url.startswith(address)
    }
    size = sum(len(gzip.compress((site / path).read_bytes())) for path in paths)
    TIMES["the landing page before anything is touched, MB"] = f"{size / 1e6:.2f}"
    assert paths >= {"index.html", "assets/site.css", "live/front.html"}
    assert size < 0.5e6, paths
