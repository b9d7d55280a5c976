"""A notebook's cells on their page: what Python makes of them, and what the page does with it.

Python is CPython here, with the page's own host.py; test_python_in_page.py has Python in the browser.
"""

import base64
import json
import textwrap

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

import gpipe_edu as ge
from gpipe_edu.course.predictions.question import find
from gpipe_edu.course.predictions.widget import Prediction
from tests.website.conftest import handed_out
from tests.website.stand_in import HOLD, Host, pages_of_a_reader
from website import cells, in_page, pages, without_kernel
from website.live.run_cells import MOST

pytestmark = pytest.mark.slow

QUESTION = "00/gradients"
STUB = 'def split(batch, M: int) -> list:\n    """In words."""\n    raise NotImplementedError'
RIGHT = """
def split(batch, M):
    if M < 1:
        raise ValueError("M")
    if isinstance(batch, tuple):
        return list(zip(*(split(each, M) for each in batch)))
    return np.array_split(batch, M)
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    one = Host(tmp_path_factory.mktemp("home"))
    yield one
    one.close()


@pytest.fixture
def host(process):
    """Python as a new page has it."""
    process.forget()
    process.ask("cells")
    return process


@pytest.fixture
def run(host):
    """`run(code)`: what is printed and shown, in order, and how it ended; errors as text."""

    def ran(code, cell="c", number=1):
        value = host.ask("run", cell=cell, number=number, code=textwrap.dedent(code).strip())["value"]
        begun, *events = [each for each in host.events if each.get("cell") == cell]
        assert begun == {"cell": cell, "begins": True}
        return [{name: each[name] for name in each if name != "cell"} for each in events], value

    return ran


def shown(events):
    (event,) = events
    return event["display"]


def failure(events):
    return events[-1]["error"]


class TestACell:
    def test_shows_its_last_value_and_its_names_stay(self, run):
        assert run("x = 2\nx + 1") == ([{"display": {"text/plain": "3"}}], {"ended": "", "missing": ""})
        assert run("y = x * 10\ny;") == ([], {"ended": "", "missing": ""})
        assert shown(run("print\n[x, y]")[0])["text/plain"] == "[2, 20]"
        assert run("None")[0] == run("")[0] == run("if x:\n    x")[0] == []

    def test_prints_line_by_line_and_what_has_no_end_too(self, run):
        events, _ = run(
            "import sys\nprint('a')\nprint('b', 'c', sep='\\n')\nprint('!', file=sys.stderr)\nprint('d', end='')"
        )
        assert [(each["stream"], each["text"]) for each in events] == [
            ("stdout", "a\n"),
            ("stdout", "b\n"),
            ("stdout", "c\n"),
            ("stderr", "!\n"),
            ("stdout", "d"),
        ]

    def test_that_prints_for_ever_does_not_fill_the_page(self, run):
        events, value = run("for i in range(100_000):\n    print('0123456789')\n'the end'")
        printed = "".join(each["text"] for each in events if "stream" in each)
        assert len(printed) < MOST + 2000
        assert printed.endswith(f"... it has printed {MOST:,} characters; what comes now is not shown\n")
        assert value["ended"] == ""
        assert events[-1]["display"]["text/plain"] == "'the end'"

    def test_shows_the_best_form_of_a_value(self, run):
        code = """
        class Rich:
            def _repr_html_(self):
                return "<b>rich</b>"

            def _repr_png_(self):
                return b"png"

        class Picture:
            _repr_html_ = None

            def _repr_png_(self):
                return b"png"
        """
        run(code)
        assert shown(run("Rich()")[0])["text/html"] == "<b>rich</b>"
        assert base64.b64decode(shown(run("Picture()")[0])["image/png"]) == b"png"
        assert shown(run("Rich")[0]) == {"text/plain": "<class '__main__.Rich'>"}
        long = shown(run("[list(range(20)) for _ in range(3)]")[0])["text/plain"]
        assert max(map(len, long.splitlines())) < 80

    def test_shows_a_schedule_as_a_picture_in_the_colours_of_the_page(self, run):
        run("import gpipe_edu as ge")
        bundle = shown(run("ge.gpipe(3, 4)")[0])
        assert bundle["image/svg+xml"].startswith("<svg")
        assert "light-dark(" in bundle["image/svg+xml"] or "var(--" in bundle["image/svg+xml"]

    def test_shows_each_plot_once(self, run):
        events, _ = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.figure()\nplt.plot([2, 1]);")
        assert [base64.b64decode(each["display"]["image/png"])[:4] for each in events] == [b"\x89PNG"] * 2
        assert run("1 + 1")[0] == [{"display": {"text/plain": "2"}}]

    def test_asks_for_what_has_to_be_fetched(self, host):
        assert host.ask("packages", code="from gpipe_edu.view import plot_lines")["value"] == ["matplotlib"]
        assert host.ask("packages", code="import gpipe_edu as ge\nge.compare")["value"] == []


class TestAnErrorOfACell:
    def test_shows_the_learners_lines_alone(self, run):
        run("import gpipe_edu as ge\n\ndef mine(K):\n    return ge.gpipe(K, 2)", number=3)
        events, value = run("x = 1\nmine(0)", number=4)
        lines = failure(events).splitlines()
        assert value == {"ended": "ended with an error", "missing": ""}
        assert [line for line in lines if line.startswith("  File")] == [
            '  File "<cell 4>", line 2, in <module>',
            '  File "<cell 3>", line 4, in mine',
        ]
        assert "    return ge.gpipe(K, 2)" in lines
        with pytest.raises(ValueError, match="K") as wrong:
            ge.gpipe(0, 2)
        assert lines[-1] == f"ValueError: {wrong.value}"

    def test_says_which_name_is_missing(self, run):
        assert run("a + 1")[1] == {"ended": "ended with an error", "missing": "a"}

    def test_has_its_cause(self, run):
        code = "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('no a') from error"
        text = failure(run(code)[0])
        assert text.index("KeyError: 'a'") < text.index("direct cause") < text.index("ValueError: no a")

    def test_of_syntax_shows_the_place(self, run):
        text = failure(run("x = (1,\ny = 2", number=7)[0])
        assert 'File "<cell 7>", line 1' in text
        assert "was never closed" in text
        assert "plain Python" not in text

    @pytest.mark.parametrize("line", ["%time 1", "!pip install x", "  %matplotlib inline"])
    def test_in_a_line_for_notebooks_says_so(self, run, line):
        assert failure(run(line)[0]).endswith("lines with % or ! in front are for notebooks.")

    @pytest.mark.parametrize("code", ["raise SystemExit(3)", "import sys\nsys.exit()", "raise KeyboardInterrupt"])
    def test_does_not_end_python(self, run, code):
        run("x = 5")
        assert run(code)[1]["ended"] == "ended with an error"
        assert shown(run("x")[0]) == {"text/plain": "5"}

    def test_of_a_stub_is_a_sentence(self, run):
        run(STUB)
        assert failure(run("split([1], 1)")[0]) == (
            "split is not written yet. Put your code in the place of `raise NotImplementedError`."
        )

    def test_is_said_where_nobody_can_answer(self, run):
        assert "nobody to ask" in failure(run("input('name?')")[0])


class TestTheCourseInACell:
    def test_shows_words_as_html(self, run):
        bundle = shown(run("from gpipe_edu.course import attempt\nattempt('03/lean')")[0])
        assert bundle["text/html"].startswith("<p><strong>Wanted:</strong>")
        assert bundle["text/plain"].startswith("Wanted:")

    def test_judges_an_exercise_and_keeps_it(self, run, host):
        run("import numpy as np\nfrom gpipe_edu.course import check")
        run("def split(batch, M):\n    return [batch]")
        events, value = run("check('ex01/splitting', split)")
        assert value["ended"] == "not yet"
        assert "<strong>ex01/splitting: not yet.</strong>" in events[0]["display"]["text/html"]
        assert not [each for each in events if "error" in each], "the report says more"
        run(RIGHT)
        events, value = run("check('ex01/splitting', split)")
        assert value["ended"] == ""
        assert "ex01/splitting: passed" in events[0]["display"]["text/plain"]
        assert "image/svg+xml" in events[1]["display"]

    def test_writes_over_one_line(self, run):
        code = "import time\nfrom gpipe_edu.course import track\nfor _ in track([1, 2], 'steps'):\n    time.sleep(0.3)"
        events, _ = run(code)
        assert {each["line"] for each in events} == {1}
        assert events[0]["text"] == "steps: 0 of 2 ..."
        assert events[-1]["text"].startswith("steps: 2 of 2, ")


class TestAWidget:
    def test_comes_with_its_script_once_and_hears_the_page(self, run, host):
        run("import gpipe_edu as ge")
        first = shown(run("chart = ge.gantt(ge.gpipe(2, 2))\nchart")[0])["application/x-gpipe-edu-widget"]
        assert [each["module"] for each in host.events if "module" in each] == ["Gantt"]
        assert "export default { render }" in next(each["script"] for each in host.events if "module" in each)
        again = shown(run("chart")[0])["application/x-gpipe-edu-widget"]
        assert again["widget"] == first["widget"]
        assert not [each for each in host.events if "module" in each]
        wish = {"serial": 1, "schedule": "1f1b", "K": 3, "M": 5}
        host.ask("update", widget=first["widget"], state={"wish": wish})
        (event,) = host.events
        assert (event["widget"], list(event["changed"])) == (first["widget"], ["payload"]), (
            "not what the page set itself"
        )
        assert shown(run("chart.timelines[0].devices, chart.wish['M']")[0])["text/plain"] == "(3, 5)"

    def test_plans_anew_where_its_sliders_are_moved(self, run, host):
        run("from gpipe_edu.sizing import guide, presets")
        code = "plan = guide(presets.job(presets.model('gpt2'), 8, 'small', 2)).explore()\nplan"
        first = shown(run(code)[0])["application/x-gpipe-edu-widget"]
        at = first["state"]["answer"]["at"]
        host.ask("message", widget=first["widget"], content={"wish": at | {"devices": at["devices"] + 1}})
        (event,) = host.events
        assert (event["widget"], list(event["changed"])) == (first["widget"], ["answer"])
        assert "on 4 devices" in event["changed"]["answer"]["html"]
        assert shown(run("plan.guide.job.machine.devices")[0])["text/plain"] == "4"

    def test_tells_the_page_what_a_cell_changes(self, run, host):
        run("import gpipe_edu as ge\nchart = ge.gantt(ge.gpipe(2, 2))")
        run("chart.cursor = 2.0")
        assert not [each for each in host.events if "changed" in each], "no page has it"
        number = shown(run("chart")[0])["application/x-gpipe-edu-widget"]["widget"]
        run("chart.cursor = 3.0")
        assert {"widget": number, "changed": {"cursor": 3.0}} in host.events

    def test_sends_files_and_takes_them(self, run, host):
        run("import gpipe_edu as ge")
        number = shown(run("ge.gantt(ge.gpipe(2, 2))")[0])["application/x-gpipe-edu-widget"]["widget"]
        host.ask("message", widget=number, content={"save": "trace"})
        (event,) = host.events
        trace = base64.b64decode(event["buffers"][0])
        assert json.loads(trace)["traceEvents"]
        content = {"open": "mine.json", "beside": [], "number": 1}
        host.ask("message", widget=number, content=content, buffers=event["buffers"])
        assert host.events[0]["said"]["opened"]["number"] == 1


def code(name, source, outputs=(), **metadata):
    return new_code_cell(source, id=name, outputs=list(outputs), metadata=metadata)


def text(name, source):
    return new_markdown_cell(source, id=name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A site with one notebook."""
    out = tmp_path_factory.mktemp("cells")
    asks = Prediction(find(QUESTION).shuffle(), None)
    question = new_output("display_data", {"text/html": without_kernel._question(asks), "text/plain": "asks"})
    notebook = nbformat.v4.new_notebook(
        cells=[
            text("title", "# A lesson"),
            code("first", "import numpy as np\nfrom gpipe_edu.course import check, hint, predict, progress\nx = 20"),
            code("second", "x + 1", [new_output("execute_result", {"text/plain": "recorded"})]),
            code("third", "y = x + 2\ny"),
            code("ask", f'predict("{QUESTION}")', [question]),
            text("why", "The reason stands here.\n\n## Your turn\n\nWrite it."),
            code("stub", STUB),
            code("check", 'check("ex01/splitting", split)'),
            code("hint", '# hint("ex01/splitting")  # remove the first #'),
            code("torch", "import torch", needs_pytorch=True),
            code("recap", 'progress("00")'),
            code("chart", "import gpipe_edu as ge\n\nge.gantt(ge.gpipe(2, 3))"),
        ]
    )
    (out / "assets").mkdir()
    in_page.write_assets(out / "assets")
    pages.write_scripts(out / "assets", [])
    made = in_page.notebook(cells.html(notebook, "lesson.ipynb", {"lesson.ipynb": "lesson.html"}), "", True)
    pages.write_page(out / "lesson.html", "A lesson", made)
    return out


@pytest.fixture(scope="module")
def address(folder):
    with handed_out(folder) as found:
        yield found


@pytest.fixture
def open_page(new_context, address, host):
    """`open_page()`: the lesson, one tab after another of one reader."""
    with pages_of_a_reader(new_context, address, host.answer) as opened:
        yield lambda **how: Lesson(opened("lesson.html", **how))


class Lesson:
    """The page of a lesson."""

    def __init__(self, page):
        self.page = page

    def cell(self, name):
        return self.page.locator(f'section[data-cell="{name}"]')

    def do(self, name, action):
        self.cell(name).locator(f"[data-do={action}]").click()

    def stands(self, name, words):
        self.cell(name).locator(f".stands:text-is('{words}')").wait_for()

    def shows(self, name, words):
        self.cell(name).locator(".outputs", has_text=words).wait_for()

    def output(self, name):
        return self.cell(name).locator(".outputs").inner_text().strip()

    def write(self, name, text):
        self.do(name, "edit")
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)


class TestThePage:
    def test_runs_a_cell_in_place_of_what_was_recorded(self, open_page):
        lesson = open_page()
        assert lesson.output("second") == "recorded"
        lesson.do("first", "run")
        lesson.do("second", "run")
        lesson.stands("second", "ran")
        assert lesson.output("second") == "21"

    def test_keeps_what_is_run_before_python_is_up(self, open_page):
        lesson = open_page(up=False)
        for name in ("first", "second"):
            lesson.do(name, "run")
            lesson.stands(name, "waits for Python")
        assert lesson.output("second") == "recorded"
        lesson.page.evaluate("startPython()")
        lesson.stands("second", "ran")
        assert lesson.output("second") == "21"

    def test_offers_to_run_what_stands_above_where_a_name_is_missing(self, open_page):
        lesson = open_page()
        assert not lesson.cell("third").locator("[data-do=above]").is_visible()
        lesson.do("third", "run")
        lesson.shows("third", "NameError: name 'x' is not defined")
        lesson.do("third", "above")
        lesson.stands("third", "ran")
        assert lesson.output("third") == "22"
        lesson.stands("second", "ran")

    def test_has_no_such_offer_where_nothing_above_would_help(self, open_page):
        lesson = open_page()
        lesson.write("first", "nonsense")
        lesson.do("first", "run")
        lesson.shows("first", "NameError")
        lesson.stands("first", "ended with an error")
        assert not lesson.cell("first").locator("[data-do=above]").is_visible()

    def test_plans_anew_where_a_slider_is_moved(self, open_page):
        lesson = open_page()
        job = "presets.job(presets.model('gpt2'), 8, 'small', 2)"
        lesson.write("first", f"from gpipe_edu.sizing import guide, presets\nguide({job}).explore()")
        lesson.do("first", "run")
        lesson.shows("first", "on 2 devices")
        lesson.cell("first").get_by_role("slider", name="devices").focus()
        lesson.page.keyboard.press("ArrowRight")
        lesson.shows("first", "on 4 devices")
        assert lesson.cell("first").locator("[role=status]", has_text="(planned).").count() == 1

    def test_takes_keys_and_leaves_by_tab_behind_escape(self, open_page):
        lesson = open_page()
        page = lesson.page
        lesson.cell("first").locator("[data-do=edit]").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Control+End")
        page.keyboard.insert_text("0")
        page.keyboard.press("Shift+Enter")
        lesson.stands("first", "ran")
        assert page.evaluate("document.activeElement.closest('section').dataset.cell") == "second"
        page.keyboard.press("Control+Enter")
        lesson.shows("second", "201")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.classList.contains('cm-content')"), "Tab indents"
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Run"

    def test_keeps_what_was_typed_until_it_is_taken_back(self, open_page):
        lesson = open_page()
        lesson.write("second", "x + 500")
        again = open_page()
        assert again.cell("second").locator("pre.code").inner_text() == "x + 500"
        again.do("first", "run")
        again.do("second", "run")
        again.shows("second", "520")
        again.do("second", "back")
        assert again.cell("second").locator("pre.code").inner_text().strip() == "x + 1"
        assert not again.cell("second").locator("[data-do=back]").is_visible()
        once_more = open_page()
        assert once_more.cell("second").locator("pre.code").inner_text().strip() == "x + 1"

    def test_stops_a_cell_while_what_is_kept_is_still_read(self, open_page):
        lesson = open_page(up=False)
        both = """() => { document.querySelector("section[data-cell=first] [data-do=run]").click();
                           document.querySelector("#running button").click(); }"""
        lesson.page.evaluate(both)
        lesson.stands("first", "stopped")

    def test_starts_python_anew_where_somebody_stops_it(self, open_page):
        lesson = open_page(up=False)
        lesson.do("first", "run")
        lesson.stands("first", "waits for Python")
        assert not lesson.page.evaluate("document.documentElement.dataset.python")
        lesson.page.click("#running button")
        said = "Stopped. Python was started anew: what cells had defined is gone."
        lesson.page.wait_for_selector(f"#running:has-text('{said}')")
        lesson.stands("first", "stopped")
        assert lesson.page.evaluate("document.activeElement.textContent") == "Run", "the button with the focus is gone"
        assert not lesson.page.locator("#running button").is_visible()
        lesson.page.evaluate("startPython()")
        lesson.do("first", "run")
        lesson.do("second", "run")
        lesson.shows("second", "21")
        assert not lesson.page.locator("#running").is_visible()

    def test_has_a_stop_at_the_cell_itself(self, open_page):
        lesson = open_page(up=False)
        lesson.do("first", "run")
        lesson.do("second", "run")
        assert lesson.cell("second").locator("[data-do=run]").inner_text() == "Stop"
        lesson.do("second", "run")
        for name in ("first", "second"):
            lesson.stands(name, "stopped")
            assert lesson.cell(name).locator("[data-do=run]").inner_text() == "Run"

    def test_goes_on_to_what_hides_the_next_cell(self, open_page):
        lesson = open_page()
        lesson.do("ask", "edit")
        lesson.page.keyboard.press("Shift+Enter")
        assert lesson.page.evaluate("document.activeElement.dataset.do") != "edit"
        lesson.do("third", "edit")
        lesson.page.keyboard.press("Shift+Enter")
        assert lesson.page.evaluate("document.activeElement.closest('section').dataset.cell") == "ask"

    def test_says_at_once_what_waits_of_all_that_stands_above(self, open_page):
        lesson = open_page()
        lesson.do("third", "run")
        lesson.shows("third", "NameError")
        lesson.page.evaluate(HOLD)
        lesson.do("third", "above")
        for name in ("first", "second", "third"):
            lesson.stands(name, "waits for Python")

    def test_gives_back_what_waits_behind_a_cell_that_fails(self, open_page):
        lesson = open_page()
        lesson.do("third", "run")
        lesson.shows("third", "NameError")
        lesson.write("first", "1 / 0")
        lesson.do("third", "above")
        lesson.shows("first", "ZeroDivisionError")
        lesson.stands("first", "ended with an error")
        for name in ("second", "third"):
            assert lesson.cell(name).locator(".stands").inner_text() == ""

    def test_checks_an_answer_with_one_click(self, open_page):
        lesson = open_page()
        lesson.do("stub", "check")
        lesson.shows("check", "split is not written yet")
        lesson.write("stub", "def split(batch, M):\n    return [batch]")
        lesson.do("stub", "check")
        lesson.shows("check", "ex01/splitting: not yet. Every piece is the whole batch")
        assert not lesson.cell("stub").locator(".solved").is_visible()
        lesson.do("hint", "hint")
        lesson.shows("hint", "Hint 1 of 3")
        lesson.write("stub", RIGHT)
        lesson.page.keyboard.press("Control+Enter")
        lesson.shows("check", "ex01/splitting: passed")
        assert lesson.cell("stub").locator(".solved").inner_text() == "\u2713 solved"
        again = open_page(up=False)
        again.cell("stub").locator(".solved").wait_for()

    def test_answers_a_question_by_itself_and_python_knows_it(self, open_page):
        lesson = open_page(up=False)
        assert not lesson.page.is_visible("text=The reason stands here.")
        assert lesson.page.is_visible("text=Write it."), "a heading ends what a question hides"
        lesson.cell("ask").locator("input").first.check()
        lesson.cell("ask").locator("button:text-is('Commit')").click()
        lesson.page.wait_for_selector("text=The reason stands here.")
        lesson.page.evaluate("startPython()")
        lesson.do("first", "run")
        lesson.do("ask", "run")
        lesson.stands("ask", "ran")
        assert lesson.cell("ask").locator("form").count() == 1, "the page's own question stays"
        lesson.do("recap", "run")
        lesson.shows("recap", "of ")
        assert QUESTION not in lesson.output("recap").partition("Still open")[2]
        again = open_page(up=False)
        again.page.wait_for_selector("text=The reason stands here.")

    def test_does_not_run_what_needs_pytorch(self, open_page):
        lesson = open_page()
        assert lesson.cell("torch").locator("[data-do=run]").count() == 0
        assert "needs PyTorch" in lesson.cell("torch").inner_text()
        lesson.cell("torch").locator("pre").click()
        lesson.page.keyboard.press("Shift+Enter")
        assert lesson.cell("torch").locator(".cm-editor").count() == 0
        assert lesson.cell("torch").locator(".stands").inner_text() == ""

    def test_has_live_charts(self, open_page):
        lesson = open_page()
        lesson.do("chart", "run")
        chart = lesson.cell("chart").locator(".ge-gantt")
        chart.locator('[data-name="schedule"]').select_option("1f1b")
        chart.locator(".ge-title", has_text="1f1b").wait_for()
        assert "makespan 12" in " ".join(chart.inner_text().split())

    def test_is_no_wider_than_a_phone(self, open_page):
        lesson = open_page(up=False)
        lesson.page.set_viewport_size({"width": 390, "height": 800})
        lesson.do("stub", "edit")
        assert lesson.page.evaluate("document.documentElement.scrollWidth") <= 390
