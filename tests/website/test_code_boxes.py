"""Code on the pages of docs: its box takes the width of the page, so that few lines are cut off on a laptop."""

import pytest

pytestmark = pytest.mark.slow

BOXES = """() => {
  const page = document.querySelector(".text").offsetWidth;
  return [...document.querySelectorAll(".text > pre")].map((box) => [box.offsetWidth, page]);
}"""


def test_a_code_box_is_as_wide_as_the_page(address, open_page):
    for size in ((1366, 768), (390, 800)):
        page = open_page(*size)
        page.goto(f"{address}docs/cluster.html")
        boxes = page.evaluate(BOXES)
        assert len(boxes) > 5
        assert all(width == room for width, room in boxes), boxes
