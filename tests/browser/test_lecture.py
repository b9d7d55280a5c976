"""A lecture shows itself without network on any screen, and is turned by a clicker's keys."""

import re
from pathlib import Path

import pytest

from gpipe_edu.teaching.lecture.outline import numbers, read
from gpipe_edu.teaching.lecture.slides import html
from tests.amount import third

pytestmark = pytest.mark.slow

SIZES = {number: [(1280, 720), (1920, 1080)] if number in third(numbers()) else [(1280, 720)] for number in numbers()}
"""Of screens. A slide grows with its screen, only its charts are laid out anew: daily not each lecture has both."""

PROBE = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const charts = () => [...document.querySelectorAll(".slide.here iframe")];
  const drawn = () => charts().every((one) => one.dataset.filled !== undefined);
  for (let i = 0; i < 1000 && !drawn(); i++) await frame();
  const here = document.querySelector(".slide.here"), stage = document.getElementById("stage").getBoundingClientRect();
  const over = [], small = [];
  const sized = (root, zoom, scale) => { // letters in pixels of a slide of 720
    const walker = root.ownerDocument.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      const silent = ["STYLE", "SCRIPT", "NOSCRIPT", "TITLE", "OPTION"].includes(parent.tagName);
      const label = parent.classList.contains("ge-label"); // as large as the op's box lets it be
      if (silent || label || !walker.currentNode.data.trim()) continue;
      const box = parent.getBoundingClientRect();
      if (!box.width || getComputedStyle(parent).visibility === "hidden") continue;
      let size = parseFloat(getComputedStyle(parent).fontSize) * zoom;
      const svg = parent.closest("svg");
      const drawn = svg?.viewBox.baseVal?.width;
      if (drawn) size *= svg.getBoundingClientRect().width / drawn / scale;
      if (size < 17.99) small.push(`${parent.tagName} ${size.toFixed(1)} ${walker.currentNode.data.slice(0, 20)}`);
    }
  };
  for (const element of here.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > stage.right + 1 || box.bottom > stage.bottom + 1)) over.push(element.tagName);
  }
  sized(here, 1, stage.width / 1280);
  for (const frame of charts()) {
    const root = frame.contentDocument.documentElement;
    const parts = [...root.querySelectorAll(".ge-gantt > *")];
    const bottom = Math.max(...parts.map((part) => part.getBoundingClientRect().bottom));
    if (bottom > frame.clientHeight + 1 || root.scrollWidth > frame.clientWidth + 1)
      over.push(`frame ${bottom} of ${frame.clientHeight}, ${root.scrollWidth} of ${frame.clientWidth}`);
    if (!root.querySelector(".ge-base *")) over.push("an empty chart");
    sized(frame.contentDocument.body, Number(root.style.zoom), 1);
    if (bottom < 0.9 * frame.clientHeight && Number(root.style.zoom) < 2) over.push(`empty below ${bottom}`);
  }
  return { over, small, at: [...document.querySelectorAll(".slide")].indexOf(here) };
}"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lectures")
    for number in numbers():
        (folder / f"{number}.html").write_text(html(read(number)), encoding="utf-8")
    return folder


@pytest.mark.sweep
@pytest.mark.parametrize(("number", "size"), [(number, size) for number, sizes in SIZES.items() for size in sizes])
def test_every_slide_fits_and_can_be_read(open_page, files, number, size):
    page = open_page(*size)
    page.goto(Path(files / f"{number}.html").as_uri())
    turns = 0
    while turns < 60:
        found = page.evaluate(PROBE)
        assert (found["over"], found["small"]) == ([], []), (number, found["at"] + 1)
        before = page.evaluate("[location.hash, document.querySelectorAll('.told').length]")
        page.keyboard.press("PageDown")
        turns += 1
        if page.evaluate("[location.hash, document.querySelectorAll('.told').length]") == before:
            break
    lecture = read(number)
    assert turns == 1 + len(lecture.slides) + sum(slide.vote is not None for slide in lecture.slides)
    assert page.problems == []
    assert {url.partition(":")[0] for url in page.requests} <= {"file", "about", "data"}


def test_a_clicker_s_keys_work_from_inside_a_chart_and_arrows_stay_the_chart_s(open_page, files):
    page = open_page(1280, 720)
    page.goto(Path(files / "03.html").as_uri() + "#2")
    chart = page.frame_locator(".slide.here iframe").locator(".ge-lanes")
    chart.click()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("location.hash") == "#2"
    page.keyboard.press("PageDown")
    assert page.evaluate("location.hash") == "#3"
    page.keyboard.press("PageUp")
    assert page.evaluate("location.hash") == "#2"


def test_a_vote_hides_its_answer_until_the_second_key(open_page, files):
    page = open_page(1280, 720)
    page.goto(Path(files / "03.html").as_uri() + "#4")
    answer = page.locator(".slide.here .because")
    assert not answer.is_visible()
    page.keyboard.press("PageDown")
    assert answer.is_visible()
    page.keyboard.press("PageUp")
    assert not answer.is_visible()


def test_printed_it_is_a_handout_with_answers_notes_and_still_charts(open_page, files):
    page = open_page(1280, 720)
    page.goto(Path(files / "03.html").as_uri())
    page.set_viewport_size({"width": 700, "height": 1000})
    page.emulate_media(media="print")
    assert page.locator(".because").first.is_visible()
    assert page.locator(".notes").first.is_visible()
    assert page.locator(".still svg").first.is_visible()
    assert not page.locator("iframe").first.is_visible()
    heights = page.evaluate("[...document.querySelectorAll('.slide')].map((slide) => slide.offsetHeight)")
    assert all(heights)
    cut = "[...document.querySelectorAll('.still svg')].some((svg) => svg.getBoundingClientRect().right > innerWidth)"
    assert not page.evaluate(cut)


def test_the_speaker_s_window_has_notes_the_next_slide_and_a_clock_and_turns_the_wall(open_page, files):
    lecture = read("05")
    wall = open_page(1280, 720)
    wall.goto(Path(files / "05.html").as_uri())
    with wall.expect_popup() as opened:
        wall.keyboard.press("s")
    desk = opened.value
    desk.wait_for_selector(".next .slide")
    where = desk.locator(".place")
    assert where.inner_text() == f"1 of {1 + len(lecture.slides)}: {lecture.title}"
    wall.keyboard.press("PageDown")
    desk.wait_for_selector(".place:text('2 of')")
    first, vote = lecture.slides[:2]
    assert desk.inner_text(".words").replace("\n", " ") == first.notes
    assert desk.inner_text(".next h2") == vote.title
    assert re.fullmatch(r"\d+:\d\d of 45 min", desk.inner_text(".clock"))
    desk.keyboard.press("PageDown")  # the vote: whoever speaks sees the answer before the room does
    desk.wait_for_selector(".place:text('3 of')")
    assert desk.inner_text(".words").startswith(f"Right is {vote.vote.answer}.")
    assert wall.evaluate("location.hash") == "#3"
    assert not wall.locator(".slide.here .because").is_visible()
    desk.keyboard.press("PageDown")
    wall.wait_for_selector(".slide.here.told .because")
    desk.wait_for_selector(f".next h2:text-is({lecture.slides[2].title!r})")
    desk.keyboard.press("PageUp")
    wall.wait_for_selector(".slide.here:not(.told)")
    for _ in range(30):
        desk.keyboard.press("PageDown")
    desk.wait_for_selector(".next p:text('This is the last slide.')")
    assert wall.problems == []
