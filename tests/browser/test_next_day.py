"""A notebook that was saved and is opened again, before any kernel runs it: charts, questions and answers are there."""

import re

import pytest

from gpipe_edu.course.predictions import question
from tests.processes import until

from . import servers

pytestmark = pytest.mark.slow

KEY = "03/loop"
CELLS = [
    f'from gpipe_edu.course import predict\npredict("{KEY}")',
    "import gpipe_edu as ge\nge.gantt(ge.gpipe(4, 8))",
]

SAVED = """async () => {
  await jupyterapp.commands.execute("docmanager:save");
  const { model } = jupyterapp.shell.currentWidget.context;
  const { state } = model.getMetadata("widgets")?.["application/vnd.jupyter.widget-state+json"] ?? {};
  const outputs = model.toJSON().cells.flatMap((cell) => cell.outputs);
  const shown = outputs.map((one) => one.data?.["application/vnd.jupyter.widget-view+json"]?.model_id).filter(Boolean);
  return !model.dirty && shown.length === 2 && shown.every((id) => state?.[id]);
}"""
"""Saves; whether the file now has both cells' outputs, and the state of the widgets in them."""


def test_a_reopened_notebook_shows_its_chart_and_the_committed_answer(lab):
    page = lab.run_all("evening", *CELLS, given_back=True)
    page.wait_for_selector(".ge-prediction")
    page.check('.ge-prediction input[value="A"]')
    page.click(".ge-prediction button")
    page.wait_for_selector(".ge-prediction-words p")
    page.evaluate("() => jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_selector(".ge-base rect", state="attached")
    page.wait_for_function(SAVED, polling=200)
    page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")

    page.goto(f"{lab.address}/doc/tree/lab/evening.ipynb?token={servers.TOKEN}&reset")
    page.wait_for_selector(".ge-base rect", state="attached")
    page.wait_for_selector(".ge-prediction-words p")
    said = page.inner_text(".ge-prediction-words")
    assert re.match(r"You said A(, and A it is|\. It is [BC])\.", said)
    assert question.find(KEY).because[:20] in said
    assert "33" in page.inner_text(".ge-figures")
    assert "Error displaying widget" not in page.inner_text(".jp-Notebook")
    assert page.evaluate("() => jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.length") == 1


CLOCK = """def clock(K, M):
    return [[(t - k, k) for k in range(K) if 0 <= t - k < M] for t in range(M + K - 1)]"""
SETTINGS = "@jupyterlab/docmanager-extension:plugin"
TYPED = """() => {
  const [cell] = jupyterapp.shell.currentWidget.content.widgets.slice(-1);
  cell.model.sharedModel.setSource("# typed a moment ago");
}"""
CLEAN = "() => !jupyterapp.shell.currentWidget.context.model.dirty"


@pytest.fixture
def without_autosave(lab):
    """JupyterLab does not save by itself."""

    def toggle():
        lab.page.evaluate("() => jupyterapp.commands.execute('docmanager:toggle-autosave')")
        lab.page.wait_for_timeout(200)

    yield toggle
    toggle()


def refreshed(lab, name):
    lab.page.goto(f"{lab.address}/doc/tree/lab/{name}.ipynb?token={servers.TOKEN}&reset")
    lab.page.wait_for_selector(".jp-Notebook .jp-Cell")
    return lab.page


def test_a_check_that_has_passed_is_there_after_a_refresh(lab, without_autosave):
    page = lab.run_all("passed", "1")
    without_autosave()
    page = lab.run_all("passed", CLOCK, 'from gpipe_edu.course import check\ncheck("ex02/clock", clock)')
    page.wait_for_selector(".jp-Notebook >> text=/24 forwards took 9 ticks/")
    page.wait_for_function(CLEAN)
    page = refreshed(lab, "passed")
    page.wait_for_selector(".jp-Notebook >> text=/24 forwards took 9 ticks/")


def test_what_is_typed_is_saved_by_itself_every_few_seconds(lab):
    page = lab.run_all("typed", "1", "")
    page.wait_for_function(CLEAN)
    page.evaluate(TYPED)
    page.wait_for_function(f"() => !({CLEAN})()")
    page.wait_for_function(CLEAN)
    page = refreshed(lab, "typed")
    page.wait_for_selector(".jp-Notebook >> text=typed a moment ago")
    path = f"{lab.address}/lab/api/settings/{SETTINGS}?token={servers.TOKEN}"
    known = page.evaluate("async (path) => (await fetch(path)).json()", path)["schema"]["properties"]
    assert (known["autosave"]["default"], known["autosaveInterval"]["default"]) == (True, 5)


SAVES_TWICE = """async () => {
  const { context } = jupyterapp.shell.currentWidget;
  const both = [context.save(), context.save()];
  window.bothSaved = false;
  Promise.all(both).then(() => (window.bothSaved = true));
}"""


def test_a_save_waits_for_one_on_its_way_and_the_reader_is_asked_nothing(lab):
    """The server has written the file, and its answer is late: a second save would find one that it does not know."""
    page = lab.run_all("slow", "1")
    page.wait_for_function(CLEAN)
    asked, late = [], []

    def hold(route):
        asked.append(route.request.method)
        if route.request.method == "PUT" and not late:
            late.append((route, route.fetch()))
        else:
            route.continue_()

    page.route(re.compile(r"/api/contents/lab/slow\.ipynb(\?|$)"), hold)
    page.evaluate(TYPED)
    page.evaluate(SAVES_TWICE)
    until(lambda: page.wait_for_timeout(50) or late)
    page.wait_for_timeout(1000)  # for a second save, which must not begin
    assert asked.count("PUT") == 1, asked  # a GET may be the file browser's, which follows a notebook that was opened
    route, answer = late[0]
    route.fulfill(response=answer)
    page.wait_for_function("() => window.bothSaved")
    assert asked.count("PUT") >= 2, asked
    assert page.locator(".jp-Dialog").count() == 0
    page.unroute_all()


CLOSES_BETWEEN = """async () => {
  const { context } = jupyterapp.shell.currentWidget;
  const first = context.save();
  first.then(() => jupyterapp.shell.currentWidget.dispose());
  await Promise.allSettled([first, context.save()]);
}"""


def test_a_notebook_closed_while_a_save_waits_is_not_said_to_have_failed(lab):
    page = lab.run_all("closed", "1")
    page.evaluate(CLOSES_BETWEEN)
    page.wait_for_timeout(300)  # for an error, which must not come
    assert page.locator(".jp-Dialog").count() == 0
