"""The lab in a real browser with nothing behind it but a server of files: lessons run, checks judge, answers stay."""

import hashlib
import json
import re
import zipfile

import nbformat
import pytest

from tests.website.conftest import ROOT, TIMES, profile_on_disk
from tests.website.visit import OWN, READY, Visit, open_notebook, run_a_schedule_of_ones_own
from website.lab import MEGABYTES, MEGABYTES_OF_PLOTS, needs_pytorch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500), pytest.mark.usefixtures("with_lab")]

FILES = [path for part in ("notebooks", "exercises") for path in sorted((ROOT / part).glob("*.ipynb"))]
LESSONS = [path.relative_to(ROOT).as_posix() for path in FILES if not needs_pytorch(nbformat.read(path, as_version=4))]

RUN = """async () => {
  const panel = jupyterapp.shell.currentWidget;
  await panel.context.ready;
  await panel.sessionContext.ready;
  return await jupyterapp.commands.execute('notebook:run-all-cells');
}"""
OUTPUTS = """() => jupyterapp.shell.currentWidget.content.widgets
  .filter((cell) => cell.model.type === 'code')
  .map((cell) => [cell.model.id, cell.model.outputs.toJSON()])"""

HOLD = """() => {
  const sessions = window.jupyterapp?.serviceManager?.sessions;
  if (!sessions) return false;
  const start = sessions.startNew.bind(sessions);
  const held = new Promise((resolve) => (window.letGo = resolve));
  sessions.startNew = async (...given) => {
    await held;
    return start(...given);
  };
  return true;
}"""
SEEN = "() => jupyterapp.shell.currentWidget?.content?.widgets?.length > 5"
MODE = "jupyterapp.shell.currentWidget.content.mode"
ACTIVE = """() => {
  const { widgets, activeCell } = jupyterapp.shell.currentWidget.content;
  return widgets.filter((cell) => cell.model.type === "code").indexOf(activeCell);
}"""
RAN = """() => {
  const code = jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === "code");
  return JSON.stringify(code.slice(0, 3).map((cell) => cell.model.executionCount)) === "[1,2,null]";
}"""

FIRST_RAN = """() => {
  const code = jupyterapp.shell.currentWidget.content.widgets.filter((cell) => cell.model.type === "code");
  return code[0].model.executionCount > 0;
}"""
SESSIONS = "[...jupyterapp.serviceManager.sessions.running()].map(({ path }) => path)"

RIGHT = """
def split(batch, M):
    if M < 1:
        raise ValueError(M)
    if isinstance(batch, tuple):
        return list(zip(*(split(each, M) for each in batch)))
    return [batch[k * len(batch) // M : (k + 1) * len(batch) // M] for k in range(M)]
"""
CHECK = """
try:
    check("ex01/splitting", split)
    print("PASSED")
except AssertionError as error:
    print("REFUSED", error.report.finding.slip)
"""
PROBE = {
    "chart": "import gpipe_edu as ge\nge.gantt(ge.gpipe(4, 8))",
    "question": 'from gpipe_edu.course import check, predict\npredict("03/loop")',
    "wrong": f"def split(batch, M):\n    return [batch] * M\n{CHECK}",
    "right": f"{RIGHT}{CHECK}",
    "endless": f"def split(batch, M):\n    while True: pass\n{CHECK}",
    "kept": "from gpipe_edu.base import store\nprint(store.path())",
    "light": "import pyodide_js\nprint('matplotlib' in pyodide_js.loadedPackages.to_py())",
}
AGAIN = {
    "tries": "from gpipe_edu.base import store\nprint(store.read('exercises')['ex01/splitting']['tries'])",
    "answers": "print(store.read('predictions'))",
}
SAVE = """([name, content]) =>
  jupyterapp.serviceManager.contents.save(name, { type: "notebook", format: "json", content })"""


@pytest.fixture
def profile(site, tmp_path):
    """For each test a Chromium that keeps on disk what it has fetched, as a reader's does."""
    with profile_on_disk(tmp_path) as found:
        yield found


def put(page, name, cells):
    """A notebook with these cells, where the browser keeps what one has changed."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source, id=name) for name, source in cells.items()]
    )
    notebook.metadata.kernelspec = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
    document = json.loads(nbformat.writes(notebook))
    page.evaluate(SAVE, [name, document])


def run(page):
    """Run all cells; their outputs by the id of the cell."""
    page.evaluate(RUN)
    return dict(page.evaluate(OUTPUTS))


def text(outputs):
    return "".join(output.get("text", "") for output in outputs)


def errors(found):
    """What each failed cell has said: an error of ours says it in place of the traceback."""
    return {
        name: "\n".join([o["evalue"], *o["traceback"]])
        for name, outputs in found.items()
        for o in outputs
        if o["output_type"] == "error"
    }


def ours(page):
    """Problems but for what JupyterLab asks a server that is not there, which it takes for no."""
    return [problem for problem in page.problems if "404" not in problem]


def test_the_probe(lab_address, open_page):
    page = open_page(1366, 768)
    open_notebook(page, lab_address, "notebooks/00_start_here.ipynb")
    page.wait_for_function("() => jupyterapp.shell.leftCollapsed")  # the list of files
    put(page, "notebooks/probe.ipynb", PROBE)
    open_notebook(page, lab_address, "notebooks/probe.ipynb")
    found = run(page)
    assert errors(found) == {}
    assert text(found["wrong"]) == "REFUSED not-cut\n"
    assert text(found["right"]) == "PASSED\n"
    assert text(found["endless"]) == "REFUSED endless\n"
    assert text(found["kept"]) == "/drive/gpipe_edu/progress.json\n"
    assert text(found["light"]) == "False\n", "schedules and checks wait for no plotting library"

    assert "33" in page.inner_text(".ge-figures")
    page.focus('.ge-controls input[type="range"][data-name="M"]')
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('.ge-figures').innerText.includes('36')")
    page.check('.ge-prediction input[value="A"]')
    page.click(".ge-prediction button")
    page.wait_for_selector(".ge-prediction-words > p")
    assert "NaN" not in page.inner_text("body")

    put(page, "notebooks/again.ipynb", AGAIN)
    open_notebook(page, lab_address, "notebooks/again.ipynb")
    again = run(page)
    assert text(again["tries"]) == "3\n"
    assert "'03/loop': '" in text(again["answers"]), "the letter kept is that of the file, not the one shown"
    assert ours(page) == []


def test_modules_are_bytecode_and_ours_can_be_read_too(lab_address, site):
    folder = site / "lab" / "static" / "pyodide"
    lock = json.loads((folder / "pyodide-lock.json").read_text(encoding="utf-8"))
    for name, package in lock["packages"].items():
        path = folder / package["file_name"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == package["sha256"], name
        files = zipfile.ZipFile(path).namelist()
        sources = {file for file in files if file.endswith(".py")}
        compiled = {file for file in files if file.endswith(".pyc")}
        assert len(compiled) == len(sources) > 100 if name == "gpipe-edu" else not sources, name
        assert compiled, name


def test_cells_run_before_there_is_a_kernel_are_kept_and_said_to_be(lab_address, open_page):
    """As on a slow machine: the notebook is on the screen, and its kernel is still to be started."""
    page = open_page(1366, 768)
    page.goto(f"{lab_address}?path=notebooks/00_start_here.ipynb")
    page.wait_for_function(HOLD)
    page.wait_for_function(SEEN)
    for cell in (0, 1):
        page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(cell).click()
        page.keyboard.press("Shift+Enter")
        page.locator('[role="status"]', has_text=f"What you have run is kept until then ({cell + 1})").wait_for()
        assert page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").nth(cell).inner_text() == "[*]:"
        assert page.evaluate(MODE) == "command"
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").nth(2).click()
    page.evaluate("letGo()")
    page.wait_for_function(RAN)
    assert (page.evaluate(ACTIVE), page.evaluate(MODE)) == (2, "edit"), "where a reader has gone on to type"


@pytest.mark.parametrize(
    "press",
    [
        lambda page: page.keyboard.press("Shift+Enter"),
        lambda page: tool(page, "run-cell-and-select-next"),
        lambda page: tool(page, "restart-run-all"),
        lambda page: choose(page, "Run Selected Cell"),
        lambda page: choose(page, "Run All Cells"),
    ],
    ids=["keys", "button", "restart button", "menu", "menu, all"],
)
def test_each_way_to_run_is_kept_until_there_is_a_kernel(lab_address, open_page, press):
    page = open_page(1366, 768)
    page.goto(f"{lab_address}?path=notebooks/00_start_here.ipynb")
    page.wait_for_function(HOLD)
    page.wait_for_function(SEEN)
    page.locator(".jp-Notebook .jp-CodeCell .cm-content").first.click()
    press(page)
    page.locator('[role="status"]', has_text="What you have run is kept until then (1)").wait_for()
    page.evaluate("letGo()")
    page.wait_for_function(FIRST_RAN)
    assert ours(page) == []


def tool(page, command):
    """A button above the notebook."""
    page.locator(f".jp-NotebookPanel-toolbar [data-command='notebook:{command}']").click()


def choose(page, item):
    """An item of the menu Run."""
    page.locator(".lm-MenuBar-item", has_text="Run").click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{item}$")).click()


def test_it_opens_alone_without_a_list_of_files_and_where_one_was(lab_address, open_page):
    """JupyterLab itself opens all that was open at the last visit, each with a Python of its own."""
    page = open_page(1366, 768)
    began = "notebooks/00_start_here.ipynb"
    for query, name in (("", began), ("?path=notebooks/01_memory_wall.ipynb", "notebooks/01_memory_wall.ipynb")):
        for again in (query, ""):
            page.goto(f"{lab_address}{again}")
            page.wait_for_function(READY, arg=name, polling=200)
            assert page.evaluate("jupyterapp.serviceManager.sessions.refreshRunning()") is None
            assert page.evaluate(SESSIONS) == [name]
            assert page.evaluate("jupyterapp.shell.mode") == "single-document"
            assert page.locator(".jp-FileBrowser").is_hidden()
            page.wait_for_timeout(2000)  # until JupyterLab has kept what is open
    assert ours(page) == []


def test_the_puzzle_refuses_and_accepts(lab_address, open_page):
    page = open_page(1366, 768)
    open_notebook(page, lab_address, "notebooks/schedule_puzzles.ipynb")
    assert errors(run(page)) == {}
    page.wait_for_selector("[class^=gp-]", state="attached")
    assert ours(page) == []


@pytest.mark.parametrize("name", LESSONS)
def test_a_notebook_runs_to_its_end(lab_address, open_page, name):
    page = open_page(1366, 768)
    visit = Visit(page)
    open_notebook(page, lab_address, name)
    TIMES[f"{name}: until its kernel is ready"] = str(visit)
    visit = Visit(page)
    found = run(page)
    TIMES[f"{name}: until all cells have run"] = str(visit)
    expected = {"not yet", "not written"} if name.startswith("exercises") else set()
    wrong = {cell: said for cell, said in errors(found).items() if not any(each in said for each in expected)}
    assert wrong == {}
    assert ours(page) == []


def test_the_second_visit_fetches_nothing_large(lab_address, open_page):
    page = open_page(1366, 768)
    sizes = {}
    for name in ("first", "second"):
        visit = Visit(page)
        open_notebook(page, lab_address, "notebooks/00_start_here.ipynb")
        TIMES[f"{name} visit to the lab, until its kernel is ready"] = str(visit)
        sizes[name] = visit.megabytes()
        run_a_schedule_of_ones_own(page)
        TIMES[f"{name} visit to the lab, until a schedule of one's own has run"] = str(visit)
        TIMES[f"{name} visit to the lab, MB until its kernel is ready"] = f"{sizes[name]:.1f}"
    assert sizes["second"] < 1


def test_what_is_said_to_be_fetched_is(lab_address, open_page):
    """Megabytes, which the banner of a lesson and the lab's line tell."""
    page = open_page(1366, 768)
    visit = Visit(page)
    open_notebook(page, lab_address, "notebooks/01_memory_wall.ipynb")
    assert visit.megabytes() == pytest.approx(MEGABYTES, abs=1)
    visit = Visit(page)
    page.evaluate(OWN, "from gpipe_edu.view import plot_lines\nplot_lines([1, 2], {'a': [1, 2]}, across='x', up='y')")
    page.wait_for_selector(".jp-OutputArea img", state="attached")
    assert visit.megabytes() == pytest.approx(MEGABYTES_OF_PLOTS, abs=1)
