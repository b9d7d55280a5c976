"""axe-core, the common checker of accessibility, finds nothing on pages of each kind, in light and dark."""

import pytest

from website.bundle import LIBRARIES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("with_lab")]

PAGES = [
    "index.html",
    "notebooks/03_scheduling.html",
    "exercises/exercise_01_splitting.html",
    "puzzle.html",
    "explorer.html",
    "progress.html",
    "notebooks/04_accumulation.html",
]
RUN = """async () => {
  const { violations } = await axe.run();
  const where = ({ target, any }) => `${target}: ${any[0]?.message ?? ""}`;
  return violations.map(({ id, nodes }) => [id, nodes.length, ...nodes.slice(0, 3).map(where)]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(address, open_page, name, scheme):
    page = open_page(1366, 768, scheme)
    page.add_init_script(path=LIBRARIES / "axe-core" / "axe.min.js")  # into frames too: a chart is a page of its own
    page.goto(f"{address}{name}")
    while page.locator(".unfold").count():
        page.locator(".unfold").first.click()
    frames = page.locator("iframe.live")
    for number in range(frames.count()):
        frames.nth(number).scroll_into_view_if_needed()
        page.frame_locator("iframe.live").nth(number).locator("svg").first.wait_for(state="attached")
    page.evaluate("document.fonts.ready")
    assert page.evaluate(RUN) == []
