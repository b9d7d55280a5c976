"""The first hour on a phone of 390 pixels: what one touches first is in view, and can be read."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PHONE = (390, 800)
TOPS = """() => ["chart", "explain", "transport", "controls"].map(
  (name) => document.querySelector(`.ge-gantt > .ge-${name}`).getBoundingClientRect().top)"""
LABELS = """() => [...document.querySelectorAll(".ge-base .ge-label")].map(
  (label) => [label.textContent, Number(label.getAttribute("font-size"))])"""


@pytest.fixture
def phone(open_page):
    return open_page(*PHONE)


def test_the_chart_comes_first_and_is_in_view(address, phone):
    for name in ("index.html", "explorer.html"):
        phone.goto(f"{address}{name}")
        frame = phone.frame_locator("iframe.explorer")
        frame.locator(".ge-base rect").first.wait_for(state="attached")
        lanes = frame.locator(".ge-lanes").bounding_box()
        assert lanes["y"] + lanes["height"] < PHONE[1], name
        tops = frame.locator("body").evaluate(TOPS)
        assert tops == sorted(tops), name
        assert phone.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        assert frame.locator('[data-do="play"]').inner_text() == "Play"


def test_the_first_screen_says_what_it_is_and_has_one_button_and_the_chart(address, phone):
    phone.goto(f"{address}index.html")
    frame = phone.frame_locator("iframe.explorer")
    frame.locator(".ge-base rect").first.wait_for(state="attached")
    what = (
        phone.locator("h1 + p"),
        phone.locator("#begin"),
        frame.locator(".ge-lanes"),
        frame.locator('[data-do="play"]'),
    )
    boxes = [each.bounding_box() for each in what]
    ends = [box["y"] + box["height"] for box in boxes]
    assert all(end <= box["y"] for end, box in zip(ends, boxes[1:], strict=False))
    assert ends[-1] < 844
    assert phone.locator("main .button:visible").evaluate_all(
        "(buttons) => buttons.filter((one) => one.getBoundingClientRect().top < 844).map((one) => one.id)"
    ) == ["begin"]


def test_eight_micro_batches_can_be_told_apart(address, phone):
    phone.goto(f"{address}explorer.html")
    frame = phone.frame_locator("iframe.explorer")
    frame.locator(".ge-base rect").first.wait_for(state="attached")
    labels = frame.locator("body").evaluate(LABELS)
    assert sorted(text for text, _ in labels) == sorted(str(m) for m in range(8) for _ in range(2 * 4))
    assert min(size for _, size in labels) >= 9


def test_still_charts_and_plots_are_drawn_for_it(address, phone, open_page):
    for page, shown, hidden in ((phone, "phones", "laptops"), (open_page(1366, 768), "laptops", "phones")):
        page.goto(f"{address}notebooks/03_scheduling.html")
        page.add_style_tag(content=".folded { display: block !important; }")
        assert not any(chart.is_visible() for chart in page.locator(f".on-{hidden} svg").all())
        charts = [chart.bounding_box() for chart in page.locator(f".on-{shown} svg").all()]
        assert charts
        scale = page.locator(f".on-{shown} svg").first.evaluate("(svg) => svg.getScreenCTM().a")
        assert scale > 0.9, "it is not shrunk"
    plots = phone.locator(".outputs picture img")
    assert plots.count()
    for plot in plots.all():
        plot.scroll_into_view_if_needed()
        assert plot.bounding_box()["width"] <= 358
        narrow, wide = plot.evaluate("async (img) => { await img.decode(); return [img.naturalWidth, innerWidth]; }")
        assert narrow < 2.2 * wide, "as fine as a phone's screen, and no laptop's plot"
