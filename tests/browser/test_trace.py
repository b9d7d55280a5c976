"""A trace opened in the page: chosen or dropped, drawn beside what is there, refused in a sentence if it is none."""

import json
from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu import Span, Timeline

from . import chrome, kernel

pytestmark = pytest.mark.slow

PLAN = ge.gpipe(3, 4)


def in_seconds(schedule, size=1e-3):
    spans = [Span(d, op, 5 + a * size, 5 + b * size) for d, op, a, b in ge.simulate(schedule).spans]
    return Timeline(spans, schedule.devices, name="a run", source="measured", unit="s")


@pytest.fixture
def saved(tmp_path):
    """Traces of ours and other files, by name."""
    ge.simulate(ge.one_f_one_b(3, 4)).save_trace(tmp_path / "plan.json")
    in_seconds(ge.gpipe(2, 3)).save_trace(tmp_path / "run.json")
    (tmp_path / "empty.json").touch()
    (tmp_path / "picture.json").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
    (tmp_path / "cut.json").write_bytes((tmp_path / "run.json").read_bytes()[:-9])
    event = {"ph": "X", "name": "aten::<b>mm</b>", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    (tmp_path / "other.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [event]}))
    with (tmp_path / "huge.json").open("wb") as huge:
        huge.truncate(50_000_000)
    return tmp_path


@pytest.fixture
def page_of(tmp_path, open_page):
    pytest.importorskip("anywidget")

    def show(chart, **options):
        page = open_page(**options)
        page.kernel = kernel.Kernel(page, chart, tmp_path / "chart.html")
        return page

    return show


def choose(page, *paths):
    page.set_input_files("[data-open]", [str(path) for path in paths])


def test_the_button_asks_for_a_file_and_the_trace_is_drawn_below_on_the_same_axis(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="open trace").click()
    chooser.value.set_files(saved / "plan.json")
    page.wait_for_selector(".ge-panel:nth-of-type(2) .ge-base rect", state="attached")
    assert page.inner_text(".ge-title >> nth=0").startswith("gpipe planned, time in cost units")
    assert page.inner_text(".ge-title >> nth=1") == "1f1b", "what holds for both is said above"
    assert page.get_attribute(".ge-lanes >> nth=1", "aria-label").startswith("1f1b, planned, time in cost units")
    assert "3 micro-batches" in page.locator(".ge-figures").nth(1).inner_text()
    assert page.locator(".ge-axis").count() == 1
    assert 'ge.Timeline.load_trace("plan.json")' in page.inner_text(".ge-opened")
    page.get_by_role("button", name="Close 1f1b").click()
    assert page.locator(".ge-panel").count() == 1
    assert page.is_hidden(".ge-opened")
    assert page.evaluate("document.activeElement.dataset.do") == "open", "the focus is not lost"
    assert page.requests == [page.url]
    assert page.problems == []


def test_it_stays_while_the_explorer_moves_on(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    choose(page, saved / "plan.json")
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    page.focus('input[type="range"][data-name="M"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ge-title').innerText.includes('5 micro-batches')")
    assert page.locator(".ge-panel").count() == 2
    page.get_by_label("show as table").check()
    assert page.locator(".ge-table caption").all_inner_texts()[3].startswith("1f1b: ops")


def test_a_run_in_seconds_stands_alone_beside_a_plan_and_says_so(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    choose(page, saved / "run.json")
    page.wait_for_selector(".ge-opened:not([hidden])")
    assert page.locator(".ge-panel").count() == 1
    assert page.inner_text(".ge-title").startswith("a run")
    assert "12 ms" in page.inner_text(".ge-figures")
    assert "in seconds and the chart is not" in page.inner_text(".ge-opened")
    assert page.text_content(".ge-unit") == "ms"
    page.focus(".ge-lanes")
    page.keyboard.press("ArrowRight")
    assert "takes" in page.inner_text(".ge-explain")
    page.get_by_role("button", name="Close a run").click()
    assert page.inner_text(".ge-title").startswith("gpipe")


def test_a_run_beside_a_run_shares_its_unit(page_of, saved):
    page = page_of(ge.gantt(in_seconds(PLAN, 1e-1)))
    choose(page, saved / "run.json")
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    assert "0.012 s" in page.locator(".ge-figures").nth(1).inner_text()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty.json", "empty.json is empty; open what gpipe_edu saved as a Chrome trace"),
        ("picture.json", "picture.json is no text; open what gpipe_edu saved as a Chrome trace"),
        ("cut.json", "cut.json begins as JSON but cannot be read to its end: it was cut off or changed"),
        (
            "other.json",
            "other.json is a trace of another program: 1 event, such as “aten::<b>mm</b>”, and none of gpipe_edu; "
            "open what gpipe_edu saved as a Chrome trace",
        ),
        (
            "huge.json",
            "huge.json has 50 MB, and a page can send the kernel 9; in Python: "
            'ge.gantt(ge.Timeline.load_trace("huge.json"))',
        ),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(page_of, saved, name, words):
    page = page_of(ge.gantt(PLAN))
    choose(page, saved / name)
    page.wait_for_selector(".ge-error:not([hidden])")
    assert page.inner_text(".ge-error") == words
    assert page.locator(".ge-panel").count() == 1, "the chart stays"
    assert page.problems == []
    assert all(len(content) < 1_000_000 for request in page.kernel.sent for content in request.get("buffers", ()))
    choose(page, saved / "plan.json")
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    assert page.is_hidden(".ge-error"), "what has been mended is said no more"


def test_a_file_that_is_dropped_on_the_chart_is_opened_and_the_page_stays(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    text = (saved / "plan.json").read_text()
    dropped = page.evaluate_handle(
        """text => {
            const data = new DataTransfer();
            data.items.add(new File([text], 'dropped.json'));
            return data;
        }""",
        text,
    )
    for event in ("dragenter", "dragover"):
        page.dispatch_event(".ge-lanes", event, {"dataTransfer": dropped})
    assert page.locator(".ge-gantt.ge-drop").count() == 1
    page.dispatch_event(".ge-lanes", "drop", {"dataTransfer": dropped})
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    assert "dropped.json" in page.inner_text(".ge-opened")
    assert page.locator(".ge-drop").count() == 0


def test_profiles_of_all_ranks_are_drawn_as_one_run(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    files = [*(Path(__file__).parents[1] / "timeline" / "opened" / "files" / "kineto_gpu").iterdir()]
    choose(page, *files)
    page.wait_for_selector(".ge-opened:not([hidden])")
    assert page.inner_text(".ge-title").startswith("2 files: ops by GPU kernels")
    assert "bubble 20.0%" in page.inner_text(".ge-figures")
    page.get_by_role("button", name="Close 2 files").click()
    choose(page, saved / "plan.json", files[0])  # each by itself
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    assert "give the files of all of them" in page.inner_text(".ge-error")
    (saved / "long.json").write_bytes(b" " * 5_000_000)
    choose(page, *[saved / "long.json"] * 2)
    page.wait_for_function("() => document.querySelector('.ge-error').innerText.includes('in a shell')")
    assert "gpipe-edu open long.json long.json" in page.inner_text(".ge-error")


def test_a_fourth_trace_is_not_drawn_and_says_why(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    choose(page, *[saved / "plan.json"] * 3)
    page.wait_for_selector(".ge-panel:nth-of-type(4)")
    choose(page, saved / "plan.json")
    page.wait_for_selector(".ge-error:not([hidden])")
    assert "3 traces are open, so close one first" in page.inner_text(".ge-error")
    assert page.locator(".ge-panel").count() == 4


def test_a_page_without_a_kernel_says_that_a_trace_needs_one(open_page, saved, tmp_path):
    pytest.importorskip("anywidget")
    ge.gantt(ge.simulate(PLAN)).to_html(tmp_path / "chart.html")
    page = open_page()
    page.goto((tmp_path / "chart.html").as_uri())
    page.get_by_role("button", name="open trace").click()
    page.wait_for_selector(".ge-error:not([hidden])")
    assert page.inner_text(".ge-error") == (
        "This page has no kernel, and opening a trace needs one: in a notebook, "
        'ge.gantt(ge.Timeline.load_trace("trace.json"))'
    )
    choose(page, saved / "plan.json")
    page.wait_for_function("() => document.querySelector('.ge-error').innerText.includes('plan.json')")
    assert page.locator(".ge-panel").count() == 1
    assert page.problems == []


def test_a_kernel_that_does_not_answer_is_told_and_its_late_answer_is_drawn(page_of, saved):
    page = page_of(ge.gantt(PLAN))
    page.kernel.busy = True
    page.clock.install()
    choose(page, saved / "plan.json")
    while not page.kernel.sent:
        page.wait_for_timeout(10)
    page.clock.run_for(3000)
    page.wait_for_selector(".ge-error:not([hidden])")
    assert page.inner_text(".ge-error").startswith("No reply from the kernel yet. If another cell runs")
    page.kernel.wake()
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    assert page.is_hidden(".ge-error")
    assert page.problems == []


def test_an_opened_plan_shares_the_lanes_of_its_run(page_of, saved):
    plan = ge.simulate(PLAN, ge.Costs(F=1e-3, B=2e-3, unit="s")).save_trace(saved / "mine.json")
    page = page_of(ge.gantt(in_seconds(PLAN)))
    offer = page.get_by_label("plan and run in one")
    assert offer.is_hidden(), "there is no plan yet"
    choose(page, plan)
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    offer.check()
    page.wait_for_selector(".ge-plan", state="attached")
    assert page.locator(".ge-panel").count() == 1
    assert page.inner_text(".ge-title").startswith("a run measured under its plan")
    page.focus(".ge-lanes")
    page.keyboard.press("Home")
    assert "Planned from 0 ms to 1 ms" in page.inner_text(".ge-explain")
    page.get_by_role("button", name="Close gpipe").click()
    assert page.locator(".ge-panel").count() == 1
    assert page.locator(".ge-plan").count() == 0
    assert offer.is_hidden()
    assert page.problems == []


def test_in_a_notebook_it_is_the_same_and_what_was_saved_there_opens(lab, saved, tmp_path):
    page = lab.run_all("trace", "import gpipe_edu as ge\nw = ge.gantt(ge.gpipe(4, 8))\nw")
    page.wait_for_selector(".ge-base rect", state="attached")
    with page.expect_download() as download:
        page.select_option("[data-save]", "trace")
    download.value.save_as(tmp_path / "mine.json")
    choose(page, saved / "other.json")
    page.wait_for_selector(".ge-error:not([hidden])")
    assert "trace of another program" in page.inner_text(".ge-error")
    choose(page, tmp_path / "mine.json")
    page.wait_for_selector(".ge-panel:nth-of-type(2)")
    one, two = page.locator(".ge-figures").all_inner_texts()
    assert one == two
    boxes = [page.locator(".ge-base").nth(number).locator("rect.ge-op").count() for number in (0, 1)]
    assert boxes == [64, 64]
    page.focus('.ge-controls input[type="range"][data-name="M"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('36')")
    assert page.locator(".ge-panel").count() == 2
    assert "Traceback" not in page.inner_text("body")
    assert chrome.our_problems(page) == []
