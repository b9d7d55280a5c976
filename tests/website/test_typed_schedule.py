"""The box for a schedule of one's own: what each control says, for right and wrong input, and that a state is a link.

Python is CPython with the page's own host.py, as in test_in_page.py. Figures are those of `ge.simulate`, words the
doctor's.
"""

import json
from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.schedule.recipes import RECIPES, form_of
from tests.browser import chrome
from tests.website.stand_in import WORKER
from tests.website.test_in_page import address, folder, host, process  # noqa: F401 (fixtures)
from website.in_page import ROWS
from website.live.typed_schedule import COSTS, MOST_OPS

pytestmark = pytest.mark.slow

DEADLOCK = "F0 B0 F1 B1\nF0 F1 B1 B0"
TWO = "F0 F1 B0 B1\nF0 B0 F1 B1"
DEFAULTS = {"schedule": "gpipe", "K": 2, "M": 3, "V": 2, "recompute": "none"}


NAME = """() => {
  const { labels, innerText } = document.activeElement;
  return labels?.[0]?.innerText.trim() || document.activeElement.getAttribute("aria-label") || innerText;
}"""


def said_of(timeline):
    return f"It runs: makespan {timeline.makespan:g}, bubble {timeline.bubble_fraction:.1%} of the devices' time."


def doctor(rows):
    return ge.Schedule.parse(rows).problems()[0]


def times(spec):
    """Of each op, by its name, when it starts and ends."""
    names = [f"{kind}{m}@{k}" for kind, m, k in zip(spec["kind"], spec["micro_batch"], spec["stage"], strict=True)]
    return dict(zip(names, zip(spec["start"], spec["stop"], strict=True), strict=True))


@pytest.fixture
def judge(host):  # noqa: F811
    return lambda rows, kept=None, **costs: host.ask("schedule", rows=rows, costs=COSTS | costs, kept=kept)["value"]


@pytest.mark.parametrize(
    ("rows", "typed", "costs"),
    [
        ("F0 B0", {}, ge.Costs()),
        (str(ge.gpipe(3, 4)), {"F": "1.5", "B": ""}, ge.Costs(F=1.5)),
        (str(ge.one_f_one_b(3, 4)), {"F": "1, 2 3", "B": "2,2,5"}, ge.Costs(F=[1, 2, 3], B=[2, 2, 5])),
        (str(ge.zero_bubble(3, 4)), {"I": "1.25", "W": "0.5"}, ge.Costs(I=1.25, W=0.5)),
        (str(ge.gpipe(2, 3, "late")), {"R": "0.5"}, ge.Costs(R=0.5)),
        (str(ge.gpipe(2, 3, "late")), {"C": "4"}, ge.Costs(C=4)),
        (str(ge.interleaved(2, 4, 2)), {"send": "0.5", "link": "1.5"}, ge.Costs(send=0.5, link=1.5)),
    ],
)
def test_a_schedule_is_timed_with_the_costs_that_are_typed(judge, rows, typed, costs):
    value = judge(rows, **typed)
    timeline = ge.simulate(ge.Schedule.parse(rows), costs)
    assert value["says"] == said_of(timeline)
    assert not value["stuck"]
    (spec,) = value["chart"]["specs"]
    assert times(spec) == {str(span.op): (span.start, span.end) for span in timeline.spans}


@pytest.mark.parametrize("rows", [DEADLOCK, "F0 B0\nB0 F0", "F0 F0 B0", "F0 B0\nF0", "F0@1 B0@1 F0 B0\nF0@1"])
def test_a_schedule_that_hangs_is_told_in_the_doctors_words_and_its_op_is_marked(judge, rows):
    value = judge(rows)
    assert value["stuck"]
    assert value["says"] == doctor(rows).message
    (spec,) = value["chart"]["specs"]
    drawn = zip(spec["kind"], spec["micro_batch"], spec["stage"], strict=True)
    wrong = {f"{kind}{m}@{k}" for index, (kind, m, k) in enumerate(drawn) if index in spec["wrong"]}
    assert str(doctor(rows).op) in wrong


def test_what_runs_of_it_takes_the_times_that_are_typed(judge):
    (spec,) = judge(DEADLOCK, F="1.5", link="0.25")["chart"]["specs"]
    assert times(spec)["F0@0"] == (0, 1.5)
    assert times(spec)["F0@1"] == (1.75, 3.25)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("F0 X1", 'cannot read "X1"'),
        ("", "has no ops"),
        ("-\n-", "has no ops"),
        ("F0 " * (MOST_OPS + 1), f"The box has {MOST_OPS + 1} ops, and takes up to {MOST_OPS}."),
        ("F0@999999999 B0@999999999", "is beyond the 4,096 stages and 65,536 micro-batches that a text may name"),
    ],
)
def test_what_cannot_be_drawn_is_told(judge, rows, words):
    value = judge(rows)
    assert value["stuck"]
    assert words in value["says"]
    assert value["chart"] is None


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"F": "x"}, "F has 'x'; a time is a number from 0 to 1000"),
        ({"B": "-1"}, "B has '-1'"),
        ({"W": "nan"}, "W has 'nan'"),
        ({"I": "inf"}, "I has 'inf'"),
        ({"R": "1 1001"}, "R has '1001'"),
        ({"F": "1 2 3"}, "Costs F has 3 values, but there are 2 stages"),
        ({"send": "1 2"}, "latency is '1 2'; it must be one number"),
        ({"link": "1,2"}, "link is '1,2'; it must be one number"),
    ],
)
def test_costs_that_are_none_are_told_beside_what_the_doctor_says(judge, typed, words):
    value = judge(TWO, **typed)
    assert words in value["says"]
    assert (value["stuck"], value["chart"]) == (True, None)
    assert judge(DEADLOCK, **typed)["says"].startswith(doctor(DEADLOCK).message)


def test_a_time_may_be_0_and_1000(judge):
    assert judge("F0 B0", F="0", B="1000")["says"] == said_of(ge.simulate(ge.gpipe(1, 1), ge.Costs(F=0, B=1000)))
    assert judge("F0 B0", F="0", B="0")["says"].startswith("It runs: makespan 0,")


def test_two_are_drawn_and_told_apart_by_their_figures(judge):
    kept = {"rows": str(ge.gpipe(2, 2)), "costs": COSTS | {"B": "4"}}
    value = judge(TWO, kept, F="2")
    mine, other = ge.simulate(ge.Schedule.parse(TWO), ge.Costs(F=2)), ge.simulate(ge.gpipe(2, 2), ge.Costs(B=4))
    assert [spec["end"] for spec in value["chart"]["specs"]] == [mine.makespan, other.makespan]
    assert [spec["name"] for spec in value["chart"]["specs"]] == ["Your schedule", "Kept"]
    told = " ".join(value["chart"]["words"])
    assert f"“Your schedule” takes {mine.makespan:g}" in told
    assert f"“Kept” with {other.makespan:g}" in told
    assert f"Bubble {mine.bubble_fraction:.1%} against {other.bubble_fraction:.1%}" in told


def test_a_kept_one_may_hang_and_one_that_cannot_be_drawn_says_so(judge):
    value = judge(TWO, {"rows": DEADLOCK, "costs": COSTS})
    assert [bool(spec.get("stops")) for spec in value["chart"]["specs"]] == [False, True]
    value = judge(TWO, {"rows": "F0 X", "costs": COSTS})
    assert value["says"].startswith("It runs")
    assert 'The kept schedule is not drawn: line 1: cannot read "X"' in value["says"]
    assert len(value["chart"]["specs"]) == 1


@pytest.mark.parametrize("recompute", ["none", "late", "early"])
@pytest.mark.parametrize("name", [name for name in RECIPES if not form_of(name).recomputes])
def test_every_recipe_fills_the_box(host, name, recompute):  # noqa: F811
    form = form_of(name)
    value = host.ask("recipe", **DEFAULTS | {"schedule": name, "V": 3, "recompute": recompute})["value"]
    if recompute == "late" and form.splits:
        assert "there is no checkpointed backward C" in value["refused"]
        return
    found = ge.Schedule.parse(value["rows"])
    plain = RECIPES[name](2, 3, **({"V": 3} if form.takes_V else {}))
    written = [[op._replace(kind="B") if op.kind == "C" else op for op in row if op.kind != "R"] for row in found.rows]
    assert written == [list(row) for row in plain.rows]
    kinds = {op.kind for row in found.rows for op in row}
    assert ("C" in kinds, "R" in kinds) == (recompute == "late", recompute == "early")
    for row in found.rows if recompute == "early" else ():
        for index, op in enumerate(row):
            if op.kind in "BI":  # behind its R, or in a block behind it
                ahead = 2 if (row[index - 1], op) in plain.pairs else 1
                assert row[index - ahead] == op._replace(kind="R")


def test_recipes_with_recompute_of_their_own_are_among_them(host):  # noqa: F811
    for way in ("late", "early"):
        value = host.ask("recipe", **DEFAULTS | {"recompute": way})["value"]
        assert ge.Schedule.parse(value["rows"]) == RECIPES[f"gpipe-{way}"](2, 3)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"K": 65}, "K is 65; choose 1 to 64"),
        ({"K": 0}, "K is 0; it must be at least 1"),
        ({"K": None}, "K is empty; type a number"),
        ({"M": 2.5}, "M is 2.5; it must be a whole number"),
        ({"M": 257}, "M is 257; choose 1 to 256"),
        ({"schedule": "interleaved", "V": 9}, "V is 9; choose 1 to 8"),
        ({"schedule": "pipedream"}, "it must be one of naive, gpipe"),
        ({"K": 10, "M": 251}, "K = 10 and M = 251 make 5020 ops; the box takes up to 5000, so choose a smaller K or M"),
        ({"K": 10, "M": 167, "schedule": "zero_bubble"}, "make 5010 ops"),
    ],
)
def test_sizes_beyond_what_can_be_read_are_refused_in_words(host, wanted, words):  # noqa: F811
    assert words in host.ask("recipe", **DEFAULTS | wanted)["value"]["refused"]


def test_the_largest_that_a_recipe_makes_the_box_takes(host, judge):  # noqa: F811
    rows = host.ask("recipe", **DEFAULTS | {"K": 10, "M": 250})["value"]["rows"]
    assert len(rows.split()) == MOST_OPS
    assert judge(rows)["says"] == said_of(ge.simulate(ge.gpipe(10, 250)))


def test_pytorchs_csv_may_be_pasted_and_the_letters_of_old_releases_are_said_aloud(judge):
    value = judge(ge.zero_bubble(2, 3).to_csv())
    assert value["says"] == said_of(ge.simulate(ge.zero_bubble(2, 3), ge.Costs()))
    value = judge("0F0,0B0,0W0\n1F0,1B0,1W0")
    assert value["says"].startswith("The file has the letters of PyTorch before 2.6")
    assert value["says"].endswith(said_of(ge.simulate(ge.zero_bubble(2, 1))))
    assert judge("0F0," * (MOST_OPS + 1))["says"].startswith("The box has")
    assert "so PyTorch 2.13 prints" in judge("0F0,0F1,0B0,0B1\n1F1,1B0,1F2,1B1")["says"]


def test_a_typed_schedule_is_a_csv_or_says_why_there_is_none(host):  # noqa: F811
    made = host.ask("csv", rows=TWO)["value"]
    assert made["csv"] == ge.one_f_one_b(2, 2).to_csv()
    assert made["flags"].endswith("--parallelism.pipeline_parallel_schedule_csv schedule.csv")
    assert host.ask("csv", rows=DEADLOCK)["value"] == {"refused": doctor(DEADLOCK).message}
    assert "no letter for a recompute" in host.ask("csv", rows=str(ge.gpipe(2, 2, "early")))["value"]["refused"]


@pytest.fixture
def open_box(new_context, address, host):  # noqa: F811
    """`open_box(mark)`: the explorer's page in a fresh browser. `.asked` are the calls of Python, in order."""
    with chrome.pages(new_context) as open_one:

        def opened(mark="", *size, up=True, name="explorer.html"):
            page = open_one(*size)
            page.asked = []

            def answer(request):
                page.asked.append(json.loads(request))
                return host.answer(request)

            page.context.add_init_script(WORKER)
            page.context.expose_function("askPython", answer)
            page.goto(f"{address}{name}{mark}")
            if up:
                page.evaluate("startPython()")
            return page

        yield opened


def says(page, words):
    page.wait_for_function("w => document.getElementById('says').innerText.includes(w)", arg=words)


def link(page):
    """The address once it holds what stands there."""
    page.wait_for_timeout(400)
    return page.evaluate("location.hash")


def shown(page):
    """All that a reader sees of a state."""
    chart = page.evaluate(
        """() => [...document.querySelectorAll('#chart .ge-panel')].map((panel) => [
             panel.querySelector('.ge-head').innerText,
             panel.querySelector('.ge-base').innerHTML.replace(/ge[a-z0-9]+-\\d/g, ''),
           ])"""
    )
    costs = page.eval_on_selector_all("[data-cost]", "all => all.map((one) => [one.value, one.offsetParent !== null])")
    words = page.inner_text("#says"), page.inner_text("#chart .ge-words") if page.is_visible("#chart .ge-words") else ""
    return page.input_value("#rows"), costs, words, chart, page.inner_text("#keep")


def test_the_first_chart_is_there_before_python_which_is_asked_once_for_what_is_typed_meanwhile(open_box):
    page = open_box(up=False)
    assert page.inner_text("#says") == said_of(ge.simulate(ge.Schedule.parse(ROWS)))
    page.focus("#chart .ge-lanes")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#chart .ge-explain:has-text('Waited for')")
    page.focus("#rows")
    page.keyboard.press("Control+A")
    page.keyboard.type("F0 F1 B0 B1")
    page.evaluate("startPython()")
    says(page, said_of(ge.simulate(ge.gpipe(1, 2))))
    asked = [call["with"]["rows"] for call in page.asked if call["call"] == "schedule"]
    assert asked == ["F", "F0 F1 B0 B1"], "what stood there when Python was asked first, and what stands there now"
    assert page.problems == []


def test_each_keystroke_is_judged_and_the_chart_stays_while_it_is_wrong(open_box):
    page = open_box()
    page.fill("#rows", DEADLOCK)
    page.wait_for_selector("#says.stuck")
    assert page.text_content("#says") == doctor(DEADLOCK).message
    assert page.locator("#chart .ge-never").count() == 6 + 1, "and one in the legend"
    drawn = page.inner_html("#chart .ge-base")
    page.fill("#rows", "F0 F1 B0 Z")
    page.wait_for_selector("#chart.old")
    assert page.inner_html("#chart .ge-base") == drawn
    page.fill("#rows", str(ge.zero_bubble(2, 3)))
    page.fill("[data-cost=W]", "0.5")
    says(page, said_of(ge.simulate(ge.zero_bubble(2, 3), ge.Costs(W=0.5))))
    assert not page.query_selector("#chart.old")
    assert [page.is_visible(f"[data-cost={kind}]") for kind in "RCIW"] == [False, False, True, True], "its ops' alone"
    assert page.problems == []


def test_a_recipe_fills_the_box_and_a_step_back_brings_back_what_stood_there(open_box):
    page = open_box()
    page.select_option("[name=schedule]", "interleaved")
    page.fill("[name=K]", "65")
    page.press("[name=K]", "Enter")
    page.wait_for_selector("#refused:has-text('K is 65; choose 1 to 64')")
    assert page.input_value("#rows") == ROWS
    for name, value in (("K", "3"), ("M", "6"), ("V", "3")):
        page.fill(f"[name={name}]", value)
    page.click("#recipe button")
    made = ge.interleaved(3, 6, 3)
    says(page, said_of(ge.simulate(made)))
    assert page.input_value("#rows") == str(made)
    page.go_back()
    says(page, said_of(ge.simulate(ge.Schedule.parse(ROWS))))
    assert page.input_value("#rows") == ROWS
    page.go_forward()
    says(page, said_of(ge.simulate(made)))


def test_a_link_shows_the_same_two_charts_in_a_fresh_browser_and_a_broken_one_says_so(open_box):
    page = open_box()
    page.fill("#rows", str(ge.zero_bubble(2, 3)) + "  # 100 % & more = +1")
    page.fill("[data-cost=I]", "1, 2")
    says(page, said_of(ge.simulate(ge.zero_bubble(2, 3), ge.Costs(I=[1, 2]))))
    page.click("#keep")
    page.wait_for_selector("#keep[aria-pressed=true]:has-text('Stop comparing')")
    page.fill("#rows", DEADLOCK)
    page.fill("[data-cost=link]", "0.5")
    says(page, "deadlock")
    again = open_box(link(page))
    again.wait_for_selector("#chart .ge-panel")
    assert shown(again) == shown(page)
    assert len(shown(again)[3]) == 2
    again.evaluate("location.hash = '#s=F0%20B0%2'")
    says(again, "This link to a schedule is broken")
    assert again.input_value("#rows") == ROWS


def test_the_keyboard_reaches_all_controls_in_order_and_the_last_downloads_the_csv(open_box):
    page = open_box()
    page.focus("[name=schedule]")
    reached = []
    for _ in range(13):
        reached.append(page.evaluate(NAME))
        page.keyboard.press("Tab")
    assert [name.split("\n")[0].strip() for name in reached] == [
        "schedule", "devices K", "micro-batches M", "recompute", "Fill the box",
        "Your schedule, a line for each device", "F", "B", "latency", "link", "Keep to compare", "Copy link",
        "Download as CSV",
    ]  # fmt: skip
    assert page.evaluate("document.activeElement.closest('#chart') !== null"), "then the chart"
    with page.expect_download() as saved:
        page.press("#csv", "Enter")
    assert saved.value.suggested_filename == "schedule.csv"
    assert Path(saved.value.path()).read_text() == ge.Schedule.parse(ROWS).to_csv()
    assert page.inner_text("#flags").startswith("torchtitan takes it with --parallelism.pipeline_parallel_degree")
    assert page.problems == []
