"""In a notebook: the page learns the answer from the reply to a commit, and a restarted kernel shows it again."""

import json
import re

import nbformat
import pytest

from gpipe_edu.base import store
from gpipe_edu.course.predictions.choice import Choice
from gpipe_edu.course.predictions.commit import Outcome, recall
from gpipe_edu.course.predictions.question import find
from gpipe_edu.course.predictions.widget import Prediction
from tests import kernels

pytestmark = pytest.mark.slow

ASKED = Choice(
    "03/loop",
    "Which `<b>`?\n\n```\nF0 B0\n```",
    "The *secret*.",
    {"A": "*one*", "B": "<i>two"},
    "B",
    {"A": "One is too few."},
)


def state(widget):
    return json.dumps({key: value for key, value in widget.get_state().items() if key not in ("_esm", "_css")})


def click(widget, option):
    widget._handle_custom_msg({"commit": option}, [])


def test_the_page_gets_the_answer_after_the_commit_only():
    widget = Prediction(ASKED, None)
    assert widget.outcome == {}
    assert "secret" not in state(widget)
    assert "secret" not in repr(widget)
    click(widget, "A")
    assert {key: widget.outcome[key] for key in ("chosen", "solution", "right")} == {
        "chosen": "A",
        "solution": "B",
        "right": False,
    }
    assert widget.outcome["words"] == "<p>You said A. It is B. One is too few. The <em>secret</em>.</p>\n"
    assert "You said A. It is B." in repr(widget)


def test_markdown_becomes_html_and_tags_in_it_stay_text():
    widget = Prediction(ASKED, None)
    assert widget.question == "<p>Which <code>&lt;b&gt;</code>?</p>\n<pre><code>F0 B0\n</code></pre>\n"
    assert widget.options == [["A", "<em>one</em>"], ["B", "&lt;i&gt;two"]]


def test_a_second_page_with_the_same_question_cannot_change_the_answer():
    first, second = Prediction(ASKED, None), Prediction(ASKED, None)
    click(first, "A")
    click(second, "B")
    assert second.outcome["chosen"] == "A"
    assert "the first answer counts" in second.outcome["words"]
    assert store.read("predictions") == {"03/loop": "A"}


def test_a_new_widget_shows_what_was_committed():
    click(Prediction(ASKED, None), "B")
    assert recall(ASKED) == Outcome("B")
    assert Prediction(ASKED, recall(ASKED)).outcome["words"].startswith("<p>You said B, and B it is.")


def run(*cells):
    """The outputs of a notebook with these cells, in a kernel of its own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = kernels.client(notebook, store_widget_state=True)
    client.execute()
    return notebook


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A notebook run from top to bottom, as nbval does it, and run again after a commit in another kernel."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(store.HOME, str(tmp_path_factory.mktemp("learner")))
        cell = "from gpipe_edu.course import predict\npredict('03/deadlock')\nprint('went on')"
        before, again = run(cell), run(cell)
        run("from gpipe_edu.course import predict\npredict('03/deadlock', 'A')")
        return before, again, run(cell)


def test_run_all_asks_goes_on_and_tells_nothing(executed):
    before, again, _ = executed
    data = before.cells[0].outputs[0].data
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == again.cells[0].outputs[0].data["text/plain"]
    assert "Commit with" in data["text/plain"]
    assert before.cells[0].outputs[1].text == "went on\n"
    assert find("03/deadlock").because not in json.dumps(before)


def test_after_a_restart_the_commit_is_still_there(executed):
    _, _, after = executed
    assert re.search(r"You said A(, and A it is|\. It is [BC])\.", after.cells[0].outputs[0].data["text/plain"])
    [outcome] = [
        model["state"]["outcome"]
        for model in after.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"].values()
        if "outcome" in model["state"]
    ]
    assert outcome["chosen"] == "A"
