"""The widget without a browser: what it shows, how it answers, what it writes, what it refuses."""

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.timeline import Span, Timeline
from gpipe_edu.view.gantt.spec import specs
from tests.processes import printed
from tests.refusals import refusals

pytestmark = pytest.mark.slow

pytest.importorskip("anywidget")

VIEW = "application/vnd.jupyter.widget-view+json"
WITHOUT = """
import sys
sys.modules['anywidget'] = None
import gpipe_edu as ge
try:
    ge.gantt()
except ImportError as error:
    print(error)
"""


def in_seconds(timeline, source="measured"):
    spans = [Span(d, op, a / 100, b / 100) for d, op, a, b in timeline.spans]
    return Timeline(spans, timeline.devices, name=timeline.name, source=source, unit="s")


PLAN = ge.simulate(ge.gpipe(2, 2))


def drawn(widget):
    return json.loads(widget.payload)


def test_an_output_holds_widget_picture_and_one_stable_line():
    pytest.importorskip("matplotlib")
    data, _ = ge.gantt()._repr_mimebundle_()
    assert set(data) == {VIEW, "image/png", "text/plain"}
    assert data["text/plain"] == "Gantt(gpipe, K=4, M=8, makespan=33)"
    assert base64.b64decode(data["image/png"], validate=True)[:4] == b"\x89PNG"
    assert not re.search(r"0x[0-9a-f]+", repr(ge.gantt()))
    assert ge.gantt().to_png() == ge.gantt().to_png()


def test_a_comparison_has_a_line_each():
    assert repr(ge.gantt(ge.gpipe(2, 2), ge.naive(2, 2))) == (
        "Gantt(gpipe, K=2, M=2, makespan=9)\nGantt(naive, K=2, M=2, makespan=12)"
    )


def test_without_anywidget_it_says_what_to_install():
    assert "pip install anywidget" in printed(WITHOUT)


def test_nothing_or_a_recipe_is_an_explorer():
    assert ge.gantt().settings.schedule == "gpipe"
    assert ge.gantt(K=3, M=2, schedule="1f1b").timelines == (ge.simulate(ge.one_f_one_b(3, 2)),)
    settings = ge.gantt(ge.gpipe(2, 3, recompute="late"), costs=ge.Costs(F=2, B=3, send=1)).settings
    assert (settings.recompute, settings.F, settings.B, settings.R, settings.send) == ("late", 2, 3, 2, 1)
    costs = ge.Costs(link=2, overlap=0.5)
    assert ge.gantt(ge.gpipe(2, 3), costs=costs).timelines == (ge.simulate(ge.gpipe(2, 3), costs),)


@pytest.mark.parametrize(
    ("given", "costs"),
    [
        (ge.Schedule.parse("F0 F1 B1 B0\nF0 B0 F1 B1"), None),
        (ge.simulate(ge.gpipe(2, 2)), None),
        (ge.gpipe(2, 2), ge.Costs(F=[1, 2])),
        (ge.zero_bubble(2, 2), ge.Costs(W=3)),
        (ge.gpipe(2, 2), ge.Costs(unit="s")),
        (ge.gpipe(2, 2), ge.Costs(micro_batches=[1, 3])),
    ],
)
def test_what_the_controls_cannot_say_is_shown_without_them(given, costs):
    widget = ge.gantt(given, costs=costs)
    assert widget.settings is None
    assert json.loads(widget.offer)["explorer"] is None
    plan = given if isinstance(given, Timeline) else ge.simulate(given, costs or ge.Costs())
    assert widget.timelines == (plan,)


def test_a_wish_is_granted_with_its_number():
    widget = ge.gantt()
    widget.wish = {"schedule": "1f1b", "K": 3, "M": 5, "B": 3, "serial": 4}
    answer = drawn(widget)
    assert (answer["serial"], answer["error"], answer["settings"]["K"]) == (4, None, 3)
    plan = ge.simulate(ge.one_f_one_b(3, 5), ge.Costs(B=3))
    assert widget.timelines == (plan,)
    assert answer["specs"][0]["end"] == plan.makespan
    assert repr(widget) == f"Gantt(1f1b, K=3, M=5, makespan={plan.makespan:g})"


def test_what_is_kept_is_drawn_below_and_the_difference_told():
    widget = ge.gantt()
    widget.wish = {"schedule": "naive", "kept": {"schedule": "gpipe"}, "serial": 1}
    answer = drawn(widget)
    assert [spec["name"] for spec in answer["specs"]] == ["naive", "gpipe"], "what is edited stands under its controls"
    assert answer["words"][0] == "“naive” takes 96, 63 (190.9%) longer than “gpipe” with 33."
    assert answer["kept"]["schedule"] == "gpipe"


def test_a_bad_wish_changes_nothing_and_is_answered_in_one_sentence():
    widget = ge.gantt()
    before = widget.timelines
    widget.wish = {"K": 65, "serial": 2}
    assert drawn(widget) == {"serial": 2, "error": "K is 65; choose 1 to 64"}
    assert widget.timelines == before
    assert widget.settings.K == 4
    widget.critical_path = True
    assert drawn(widget)["error"] is None


def test_wishes_that_may_come_are_answered_in_their_order(monkeypatch):
    widget = ge.gantt()
    sent = []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._handle_custom_msg({"ahead": [{"K": 5}, {"K": -1}], "round": 3}, [])
    (message,) = sent
    good, bad = map(json.loads, message["ahead"])
    assert message["round"] == 3
    assert good["settings"]["K"] == 5
    assert bad["error"].startswith("K is -1")
    assert widget.settings.K == 4


def test_the_critical_path_is_sent_on_demand():
    widget = ge.gantt()
    assert drawn(widget)["specs"][0]["critical"] == []
    widget.critical_path = True
    assert drawn(widget)["specs"][0]["critical"]


def test_a_schedule_beside_a_run_is_planned_with_the_costs_of_the_run():
    run = in_seconds(ge.simulate(ge.gpipe(2, 3), ge.Costs(F=1, B=3, send=0.5)))
    widget = ge.gantt(ge.gpipe(2, 3), run)
    plan, measured = widget.timelines
    assert measured is run
    assert (plan.source, plan.unit) == ("planned", "s")
    assert plan.makespan == pytest.approx(run.makespan)
    assert drawn(widget)["words"][0].endswith("exactly as long as “gpipe, planned”.")


@pytest.fixture
def few_charts(monkeypatch):
    """An explorer's page has few; tests/view/test_gantt_page.py makes a whole one."""
    monkeypatch.setattr("gpipe_edu.view.gantt.page.GRID", {"K": (2,), "M": (2, 4)})


def test_files(tmp_path, few_charts):
    widget = ge.gantt(ge.gpipe(2, 2))
    assert ElementTree.fromstring(widget.to_svg(tmp_path / "a.svg")).tag.endswith("svg")
    assert (tmp_path / "a.svg").read_text() == widget.to_svg()
    assert widget.to_html(tmp_path / "a.html") == (tmp_path / "a.html").read_text()
    assert widget.save_trace(tmp_path / "a.json") == [tmp_path / "a.json"]
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 8
    two = ge.gantt(ge.gpipe(2, 2), ge.naive(2, 2))
    assert two.save_trace(tmp_path / "b.json") == [tmp_path / "b-1.json", tmp_path / "b-2.json"]
    assert two.to_svg() == ge.compare(ge.gpipe(2, 2), ge.naive(2, 2)).to_svg()


def test_two_charts_leave_out_the_lanes_of_memory_unless_they_are_asked_for():
    assert ge.gantt().memory
    assert not ge.gantt(ge.gpipe(2, 2), ge.naive(2, 2)).memory
    assert ge.gantt(ge.gpipe(2, 2), ge.naive(2, 2), memory=True).memory


def test_a_huge_step_has_no_still_picture():
    data, _ = ge.gantt(ge.one_f_one_b(32, 64))._repr_mimebundle_()
    assert set(data) == {VIEW, "text/plain"}


test_bad_arguments_are_named = refusals(
    (
        TypeError,
        r"gantt draws schedules and timelines, such as ge.gantt\(ge.gpipe\(4, 8\)\); got 'gpipe'$",
        lambda: ge.gantt("gpipe"),
    ),
    (
        TypeError,
        r"got 'f0, b0'. Did you mean ge.Schedule.parse\('F0 B0'\)\?",
        lambda: ge.gantt("f0, b0"),
    ),
    (
        TypeError,
        r"got \[Schedule\(naive.*\]. Give them one by one, without brackets",
        lambda: ge.gantt([ge.naive(2, 2), ge.gpipe(2, 2)]),
    ),
    (TypeError, "costs is 3; it must be a Costs", lambda: ge.gantt(ge.gpipe(2, 2), costs=3)),
    (ge.ScheduleError, ".", lambda: ge.gantt(ge.Schedule.parse("F0\nF0 B0"))),
    (ValueError, "schedule is 'nope'; it must be one of", lambda: ge.gantt(schedule="nope")),
    (TypeError, "no option 'colour'", lambda: ge.gantt(colour="red")),
    (ValueError, "give either schedules and timelines, or controls", lambda: ge.gantt(ge.gpipe(2, 2), K=3)),
    (ValueError, "theme is 'pink'", lambda: ge.gantt(theme="pink")),
    (ValueError, "speed is 0", lambda: ge.gantt(speed=0)),
    (ValueError, "cap is -1", lambda: ge.gantt(cap=-1)),
    (
        ValueError,
        "do not share a time axis",
        lambda: ge.gantt(PLAN, in_seconds(PLAN)),
    ),
)


class Heard(list):
    """What the widget sends to the page."""

    def __init__(self, monkeypatch, chart):
        monkeypatch.setattr(chart, "send", lambda content, buffers=(): self.append((content, *buffers)))


@pytest.mark.parametrize("kind", ["svg", "png", "html", "trace"])
def test_the_page_saves_what_the_methods_write(kind, few_charts, monkeypatch, tmp_path):
    chart = ge.gantt(ge.gpipe(3, 4))
    heard = Heard(monkeypatch, chart)
    chart._handle_custom_msg({"save": kind}, [])
    written = {
        "svg": lambda: chart.to_svg().encode(),
        "png": lambda: chart.to_png(),
        "html": lambda: chart.to_html().encode(),
        "trace": lambda: chart.save_trace(tmp_path / "trace.json")[0].read_bytes(),
    }
    ((said, content),) = heard
    assert said["file"].startswith("gpipe.")
    assert content == written[kind]()


def test_a_comparison_saves_a_trace_each_under_names_any_system_takes(monkeypatch):
    chart = ge.gantt(ge.simulate(ge.gpipe(2, 2)).with_name("a / b: 50 %"), ge.naive(2, 2))
    heard = Heard(monkeypatch, chart)
    chart._handle_custom_msg({"save": "trace"}, [])
    assert [said["file"] for said, _ in heard] == ["a-b-50-naive-1.json", "a-b-50-naive-2.json"]


def test_what_cannot_be_saved_is_said_in_the_widget(monkeypatch):
    chart = ge.gantt(ge.gpipe(2, 2))
    heard = Heard(monkeypatch, chart)
    chart._handle_custom_msg({"save": "gif"}, [])
    assert heard == [({"refused": "cannot save as 'gif'; it must be one of svg, png, html, trace"},)]


def test_a_trace_that_the_reader_opened_is_sent_back_as_it_is_drawn_in_python(monkeypatch, tmp_path):
    chart = ge.gantt(ge.gpipe(2, 2))
    heard = Heard(monkeypatch, chart)
    run = ge.simulate(ge.one_f_one_b(3, 4), ge.Costs(F=2e-3, B=3e-3, unit="s")).with_name("mine")
    file = run.save_trace(tmp_path / "mine.json").read_bytes()
    here = {"unit": "step", "shown": [1, ""]}
    for beside in ([here], [here, {"unit": "s", "shown": [1e6, "µs"]}]):
        chart._handle_custom_msg({"open": "mine.json", "beside": beside, "number": "a-1"}, [memoryview(file)])
    chart._handle_custom_msg({"open": "mine.json", "beside": [], "number": "a-2"}, [memoryview(file[:-1])])
    alone, beside, refused = [said["opened"] for (said,) in heard]
    assert json.loads(alone["spec"]) == json.loads(json.dumps(specs([run], critical_path=True)[0]))
    assert json.loads(beside["spec"])["figures"][0].endswith("µs")
    assert (refused["number"], refused["refused"].split(" cannot")[0]) == ("a-2", "mine.json begins as JSON but")
    assert chart.timelines == (ge.simulate(ge.gpipe(2, 2)),), "what a reader opens is not the chart's"


def test_profiles_of_all_ranks_opened_together_are_one_run(monkeypatch, tmp_path):
    chart = ge.gantt(ge.gpipe(2, 2))
    heard = Heard(monkeypatch, chart)
    files = sorted((Path(__file__).parents[1] / "timeline" / "opened" / "files" / "kineto_gpu").iterdir(), reverse=True)
    mine = ge.simulate(ge.gpipe(2, 2)).save_trace(tmp_path / "mine.json")
    for number, given in enumerate((files, files[1:], [mine, mine], [files[0], mine])):
        names = [file.name for file in given]
        sent = [memoryview(file.read_bytes()) for file in given]
        chart._handle_custom_msg({"open": names, "beside": [], "number": number}, sent)
    run, one, own, mixed = [said["opened"] for (said,) in heard]
    assert json.loads(run["spec"])["name"] == "2 files: ops by GPU kernels"
    assert json.loads(run["spec"])["figures"][1].startswith("bubble 20.0%")
    assert "no file is of rank 1" in one["refused"]
    assert (own, mixed) == ({"number": 2}, {"number": 3}), "each is to be drawn by itself"
