"""Sliders over a plan without a browser: messages in, answers out, and what is shown where no widget runs."""

import json

import pytest

from gpipe_edu.sizing import Job, Machine, Planner, SearchSpace, presets, transformer
from gpipe_edu.sizing.page.picture import as_html
from gpipe_edu.view.palette import PAGE
from tests.processes import printed

pytest.importorskip("anywidget")

from gpipe_edu.sizing.page.explorer import NETWORKS, sliders_of

MODEL = transformer(blocks=10, width=256, context=128, vocabulary=2000, heads=4)
JOB = Job(MODEL, 48, Machine(devices=6, memory=110e6, speed=1e12, link=5e9, network=0.5e9, node=2))
WAYS = SearchSpace(zero=(0,), tensor=(1, 2), schedules=("1f1b",))

WITHOUT = """
import sys
sys.modules['anywidget'] = None
from gpipe_edu.sizing import guide, presets
try:
    guide(presets.job(presets.model("gpt2"), 8, "small")).explore()
except ImportError as error:
    print(error)
"""


@pytest.fixture
def widget():
    return Planner(JOB, WAYS).explore()


def stops(widget):
    return {each["name"]: each["stops"] for each in widget.sliders}


def ask(widget, **values):
    """Move sliders to the stops that read so."""
    there = stops(widget)
    at = widget.answer["at"] | {name: there[name].index(value) for name, value in values.items()}
    widget._hear(widget, {"wish": at}, [])
    return widget.answer


def test_its_sliders_stand_where_the_job_does(widget):
    at = widget.answer["at"]
    shown = {name: values[at[name]] for name, values in stops(widget).items()}
    assert shown == {"devices": "6", "link": "0.5 GB/s", "batch": "48 (0.00614 M tokens)"}
    assert widget.answer["html"] == as_html(Planner(JOB, WAYS), PAGE, folded=True)
    assert stops(widget)["devices"][:5] == ["1", "2", "4", "6", "8"]
    assert stops(widget)["devices"][-1] == "16,384"
    assert len(stops(widget)["link"]) == 1 + len(NETWORKS)
    assert [text.split()[0] for text in stops(widget)["batch"]] == ["6", "12", "24", "48", "96", "192", "384"]


def test_an_answer_is_the_plan_of_what_was_asked(widget):
    answer = ask(widget, devices="4", link="12.5 GB/s", batch="96 (0.0123 M tokens)")
    job = JOB._replace(batch=96, machine=JOB.machine._replace(devices=4, network=12.5e9))
    assert widget.guide.job == job
    assert widget.guide.ways == WAYS
    assert answer["html"] == as_html(Planner(job, WAYS), PAGE, folded=True)
    best = widget.guide.best
    assert answer["words"] == f"{1e3 * best.step:.3g} ms a step, {best.mfu:.0%} MFU (planned)."
    json.dumps(answer)


def test_what_cannot_be_planned_is_answered_too(widget):
    assert ask(widget, devices="1")["words"] == "Nothing fits."
    widget = Planner(JOB, WAYS._replace(tensor=(2,))).explore()
    answer = ask(widget, devices="1")
    assert (answer["words"], "no plan is left to weigh" in answer["html"]) == ("No plan.", True)
    assert ask(widget, devices="2")["words"] != "No plan."


def test_without_nodes_it_turns_the_only_link_and_without_links_none():
    names = {each.label: each.name for each in sliders_of(JOB._replace(machine=JOB.machine._replace(node=None)))}
    assert names["link"] == "link"
    alone = Planner(JOB._replace(machine=Machine(4, 1e9, 1e12)), WAYS).explore()
    assert list(stops(alone)) == ["devices", "batch"]
    assert ask(alone, devices="2")["words"].endswith("(planned).")
    real = sliders_of(presets.job(presets.model("llama3-8b"), 512, "h100", 64))
    assert [(each.label, each.stops[0]) for each in real][1] == ("link between nodes", "1.25 GB/s")


def test_where_no_widget_runs_the_picture_and_a_stable_line_remain(widget):
    data, _ = widget._repr_mimebundle_()
    assert data["text/html"] == as_html(Planner(JOB, WAYS))
    assert data["text/plain"] == repr(Planner(JOB, WAYS))
    ask(widget, devices="4")
    assert widget._repr_mimebundle_()[0]["text/plain"] == repr(widget.guide)


def test_without_anywidget_it_says_what_to_install():
    assert printed(WITHOUT) == (
        "Planner.explore needs anywidget: pip install anywidget; the guide itself needs nothing\n"
    )
