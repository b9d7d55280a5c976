"""Each page opened by double click: charts that live, questions closed until answered, links that lead somewhere."""

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from gpipe_edu.course.lessons import READING_ORDER
from tests.amount import third
from tests.notebooks.heights import VISIBLE, WIDTH
from tests.website.asked import entries, misjudged, on_page
from tests.website.conftest import ROOT, SAMPLE, TIMES
from tests.website.visit import Visit, move_the_explorer
from website import colab_kaggle, pages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


class Links(HTMLParser):
    """The addresses and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.anchors.add(found["id"])
        if tag in ("a", "img", "iframe", "script", "link"):
            self.links += [found[name] for name in ("href", "src") if found.get(name)]


def test_the_next_lesson_is_the_next_of_the_thread_and_the_puzzles_come_last():
    notebooks = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("*.ipynb"))
    named = {at: at.replace(".ipynb", ".html") for at in notebooks}

    def neighbours(start):
        [at] = [one for one in notebooks if Path(one).name.startswith(start)]
        return re.findall(r'href="(\d\d|[a-z]+)', pages._next(at, notebooks, named))

    assert [neighbours(start) for start in ("00", "06", "09", "15")] == [
        ["01"],
        ["05", "09"],
        ["06", "14"],
        ["12", "07"],
    ]
    assert neighbours("schedule_puzzles") == [READING_ORDER[-1]]


def written(site):
    """Every page, without the live charts in frames and the lab."""
    return [path for path in sorted(site.rglob("*.html")) if path.relative_to(site).parts[0] not in ("live", "lab")]


def sample(site, whole):
    """Those a browser looks at: daily a third."""
    return written(site) if whole else third(written(site))


def test_every_lesson_exercise_and_doc_has_a_page(site, whole):
    names = {path.relative_to(site).as_posix() for path in written(site)}
    for folder, suffix in (("notebooks", ".ipynb"), ("exercises", ".ipynb"), ("docs", ".md")):
        for path in (ROOT / folder).glob(f"*{suffix}"):
            if whole or suffix == ".md" or path.stem in SAMPLE:
                assert f"{folder}/{path.stem}.html" in names
    assert {"index.html", "explorer.html"} <= names


def test_links_lead_somewhere(site, whole):
    made = {path: Links(path) for path in written(site)}
    lost = []
    for path, page in made.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or link in ("#",):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            inside = target.relative_to(site.resolve()).parts
            if not whole and (inside[0] == "lab" or (target.suffix == ".html" and target.stem not in SAMPLE)):
                continue
            anchor = "" if "=" in parts.fragment else parts.fragment  # the others say what to show
            lacks = target in made and anchor and anchor not in made[target].anchors
            if lacks or not target.exists():
                lost.append((path.name, link))
    assert lost == []


def test_every_page_opens_by_double_click_with_as_many_live_charts_as_widgets(site, whole, open_page):
    page = open_page(1366, 768)
    for path in sample(site, whole):
        page.goto(path.as_uri())
        page.wait_for_load_state()
        while page.locator(".unfold").count():
            page.locator(".unfold").first.click()
        frames = page.locator("iframe.live")
        for number in range(frames.count()):
            frames.nth(number).scroll_into_view_if_needed()
            chart = page.frame_locator("iframe.live").nth(number)
            chart.locator(".ge-base rect, .ge-base path").first.wait_for(state="attached")
        assert page.problems == [], path.name
        source = ROOT / path.relative_to(site).with_suffix(".ipynb")
        if source.exists():
            assert frames.count() == widgets(source), path.name
            assert page.locator("form.ge-prediction").count() == questions(source), path.name


def widgets(path):
    """How many interactive charts and puzzles a notebook shows, whatever its reader has done; `mine` is theirs."""
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    shown = r"^ge\.gantt\((?!.* if |.*\bmine\b)|ge\.puzzle\("
    return sum(len(re.findall(shown, source, re.MULTILINE)) for source in cells)


def questions(path):
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return sum(len(re.findall(r"^predict\(", source, re.MULTILINE)) for source in cells)


def test_what_is_packed_into_a_page_judges_every_answer_as_its_file_has_it(site):
    """`test_questions.py` clicks what is packed so."""
    written_down = entries()
    for path in written(site):
        source = ROOT / path.relative_to(site).with_suffix(".ipynb")
        asked = on_page(path.read_text(encoding="utf-8"))
        assert len(asked) == (questions(source) if source.exists() else 0), path.name
        assert [fault for each in asked for fault in misjudged(each, written_down[each["key"]])] == [], path.name


def test_nothing_hangs_over_the_edge_and_pictures_fit_a_laptop_s_screen_where_they_are_first_seen(
    site, whole, open_page
):
    """In JupyterLab; lessons are measured when nbval runs them (tests/notebooks/heights.py), exercises only here."""
    page = open_page()
    for path in sample(site, whole):
        page.goto(path.as_uri())
        for width, scheme in ((390, "dark"), (1366, "light")):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        sizes = page.eval_on_selector_all(
            ".outputs img",
            """async (images) => {
                await Promise.all(images.map((image) => image.decode()));
                return images.map((image) => [image.naturalWidth, image.naturalHeight]);
            }""",
        )
        high = [height * min(1, WIDTH / width) for width, height in sizes]
        assert max(high, default=0) <= VISIBLE, path.name


def test_what_is_only_for_those_who_run_a_notebook_is_not_on_its_page(site):
    """Keys and menus of Jupyter, what is installed where the site was built, what its builder has answered."""
    foreign = re.compile(
        r"Shift\W*Enter|start Jupyter|Run All|Run Selected|Restart Kernel|MISSING|restart the kernel"
        r"|(?:numpy|torch) >= |\b0 of \d+ (?:done|solved|predictions)"
    )
    lessons = [path for path in written(site) if path.parent.name in ("notebooks", "exercises")]
    assert lessons
    for path in lessons:
        assert foreign.findall(shown(path)) == [], path.name
        assert "remove the first #" not in path.read_text(encoding="utf-8"), path.name  # there is a button


@pytest.mark.parametrize("needs_pytorch", [True, False])
@pytest.mark.parametrize("at", ["notebooks/06_pytorch_pipeline.ipynb", "exercises/exercise_05_wrapper.ipynb"])
def test_a_page_says_where_all_of_it_runs(monkeypatch, needs_pytorch, at):
    """In Colab and on Kaggle, too, where its repository builds the site."""
    cell = nbformat.v4.new_code_cell("import torch", metadata={"needs_pytorch": needs_pytorch})
    notebook = nbformat.v4.new_notebook(cells=[cell])
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    for repository in ("", "somebody/pipelines"):
        monkeypatch.setenv("GITHUB_REPOSITORY", repository)
        banner = pages._banner(notebook, "the lab", colab_kaggle.links(at))
        assert ("Run all on your machine" in banner) == needs_pytorch != ("Open it in JupyterLab" in banner)
        assert ("Open in Colab" in banner) == ("Open in Kaggle" in banner) == bool(repository)


def shown(path):
    """What one reads of a page, its code left out."""
    body = re.sub(r"<(script|style|svg|code)\b.*?</\1>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return unescape(re.sub(r"<[^>]+>", "", body))


def test_pictures_are_dark_where_the_page_is(site, open_page):
    """Still charts of ours follow the page; the pixels of a plot are turned, hues kept."""
    page = open_page(1366, 768, "dark")
    page.goto((site / "notebooks" / "03_scheduling.html").as_uri())
    while page.locator(".unfold").count():
        page.locator(".unfold").first.click()
    papers = page.eval_on_selector_all(".outputs svg > .paper", "all => all.map((one) => getComputedStyle(one).fill)")
    assert papers
    assert set(papers) == {"rgb(24, 24, 24)"}
    plots = page.eval_on_selector_all(".outputs img", "all => all.map((one) => getComputedStyle(one).filter)")
    assert plots
    assert all(plot.startswith("invert(") for plot in plots)
    marks = page.eval_on_selector_all("[id]", "all => all.map((one) => one.id)")
    assert len(marks) == len(set(marks)), "two equal charts on a page"
    page.goto((site / "notebooks" / "03_scheduling.html").as_uri())
    page.emulate_media(color_scheme="light")
    lit = page.eval_on_selector_all(".outputs svg > .paper", "all => all.map((one) => getComputedStyle(one).fill)")
    assert set(lit) == {"rgb(255, 255, 255)"}


def test_the_puzzles_of_a_page_are_those_that_its_lesson_asks_for(site):
    page = (site / "notebooks/03_scheduling.html").read_text(encoding="utf-8")
    assert re.findall(r'<iframe class="live" src="../puzzle.html#level=([^"]*)"', page) == ["memory-wall", "1f1b"]


def test_each_puzzle_of_a_page_has_a_name_of_its_own(address, open_page):
    """Else a reader of the screen cannot tell their main parts, and that of the lesson, from each other."""
    page = open_page(1366, 768)
    page.goto(f"{address}notebooks/03_scheduling.html")
    while page.locator(".unfold").count():
        page.locator(".unfold").first.click()
    puzzles = 'iframe[src*="puzzle.html"]'
    names = []
    for number in range(page.locator(puzzles).count()):
        page.locator(puzzles).nth(number).scroll_into_view_if_needed()
        page.frame_locator(puzzles).nth(number).locator("svg").first.wait_for(state="attached")
        names.append(page.frame_locator(puzzles).nth(number).locator("main").get_attribute("aria-label"))
    assert names == ["The puzzle: The memory wall", "The puzzle: One forward, one backward"]


def test_the_explorer_is_moved_without_a_kernel(site, open_page):
    page = open_page()
    page.goto((site / "index.html").as_uri())
    chart = page.frame_locator("iframe.live").first
    assert "33" in chart.locator(".ge-figures").inner_text()
    chart.locator('[data-name="schedule"]').select_option("1f1b")
    chart.locator(".ge-title", has_text="1f1b").wait_for()
    assert page.problems == []


def test_the_front_page_is_small_and_its_chart_moves(address, open_page):
    page = open_page(1366, 768)
    visit = Visit(page)
    move_the_explorer(page, address)
    TIMES["from opening the front page to a chart that moves"] = str(visit)
    assert visit.megabytes() < 1
    words = page.locator("main").inner_text()
    assert "eighteen lessons" in words
    assert "pip install" not in words, "who reads it is there already"
    assert "git clone" not in words
    assert page.locator("main table").count() == 2
    TIMES["the front page, MB"] = f"{visit.megabytes():.2f}"
    assert page.problems == []


def test_an_answer_stays_hidden_until_one_has_committed_and_is_kept(site, open_page):
    page = open_page()
    address = (site / "notebooks" / "00_start_here.html").as_uri()
    page.goto(address)
    text = (site / "notebooks" / "00_start_here.html").read_text(encoding="utf-8")
    form = page.locator("form.ge-prediction").nth(1)
    after = page.locator(".after").nth(1)
    assert after.is_hidden()
    form.locator("input").first.check()
    form.locator("button").click()
    form.locator(".ge-prediction-words", has_text="approximation").wait_for()
    said = form.locator(".ge-prediction-words").inner_text()
    assert said.split(".")[0] not in text, "the verdict is packed"
    assert after.is_visible()
    page.reload()
    page.locator("form.ge-prediction").nth(1).locator(".ge-prediction-words", has_text="approximation").wait_for()
    assert page.locator(".after").nth(1).is_visible()
    assert page.locator(".after").nth(0).is_hidden()
    page.locator(".unfold").first.click()
    assert page.locator(".after").nth(0).is_visible()
    assert page.problems == []


@pytest.mark.parametrize("name", ["index", "notebooks/03_scheduling", "explorer", "puzzle"])
def test_a_page_opened_by_double_click_says_that_python_needs_a_server(site, open_page, with_lab, name):
    page = open_page(1366, 768)
    page.goto((site / f"{name}.html").as_uri())
    page.locator(":is(.banner, #state)", has_text="Python needs").wait_for()
    assert "http.server" in page.locator(":is(.banner, #state)", has_text="Python needs").inner_text()
    assert page.locator('a[target="lab"]').count() == 0, "it leads nowhere"
    assert page.problems == []


def test_without_scripts_everything_can_be_read(site):
    text = (site / "notebooks" / "00_start_here.html").read_text(encoding="utf-8")
    assert 'class="after"' in text
    assert not re.search('class="[^"]*folded', text)
    assert Path(site / "assets" / "site.css").read_text(encoding="utf-8").count(".folded")
