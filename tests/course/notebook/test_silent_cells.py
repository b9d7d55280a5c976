"""In a real kernel: a silent cell counts its seconds; when it speaks or ends, nothing of the line is left."""

import os
import queue

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from gpipe_edu.command import lab
from tests.processes import PATIENCE

SOON = "import time, sys, gpipe_edu.course.notebook.silent_cells as running\nrunning.PATIENCE = 0.3"
LOADING = """
from pathlib import Path
from tempfile import TemporaryDirectory
with TemporaryDirectory() as folder:
    Path(folder, "torch.py").write_text("import time; time.sleep(0.8)")
    sys.path.insert(0, folder)
    import torch
    sys.path.remove(folder)
"""
WIDGET = """
from ipywidgets import Output
caught = Output()
with caught:
    time.sleep(0.6)
    print("caught")
"""
FORK = """
import os
child = os.fork()
if not child:
    print("from the fork", flush=True)
    os._exit(0)
os.waitpid(child, 0)
time.sleep(0.6)
"""
FROM_A_THREAD = """
import threading
speaker = threading.Timer(0.6, print, ["from a thread"])
speaker.start()
time.sleep(1.2)
speaker.join()
"""
CELLS = {
    "soon": SOON,
    "silent": "time.sleep(1.7)",
    "quick": "time.sleep(0.1)",
    "quick with a value": "6 * 7",
    "speaks first": "print('first')\ntime.sleep(0.6)",
    "speaks late": "time.sleep(0.6)\nprint('late')",
    "value": "time.sleep(0.6)\n6 * 7",
    "raises": "time.sleep(0.6)\nraise OSError('broken')",
    "shows progress": "from gpipe_edu.course import counting\nwith counting('work', about=1):\n    time.sleep(0.6)",
    "clears": "from IPython.display import clear_output\ntime.sleep(0.6)\nclear_output(wait=True)",
    "runs a cell": "get_ipython().run_cell('time.sleep(0.05)')\ntime.sleep(0.6)",
    "waits": "import asyncio\nawait asyncio.sleep(0.6)",
    "loads": LOADING,
    "fork": FORK,
    "thread": FROM_A_THREAD,
    "the rest": "sum(thread.name == 'silent cell' for thread in threading.enumerate())",
}


class Listener(NotebookClient):
    """Runs a notebook as nbconvert does, and notes what each cell's kernel says."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.heard = {}

    def process_message(self, msg, cell, cell_index):
        self.heard.setdefault(cell.id, []).append((msg["msg_type"], msg["content"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def ran():
    """(outputs that are stored, the lines that were shown) of each cell."""
    cells = [nbformat.v4.new_code_cell(source, id=name.replace(" ", "-")) for name, source in CELLS.items()]
    client = Listener(nbformat.v4.new_notebook(cells=cells), timeout=PATIENCE, kernel_name="python3", allow_errors=True)
    client.execute()
    return {
        name: (cell.outputs, [text for kind, text in spoken(client.heard[cell.id]) if kind.endswith("display_data")])
        for name, cell in zip(CELLS, client.nb.cells, strict=True)
    }


def spoken(messages):
    return [(kind, content.get("data", {}).get("text/plain", "")) for kind, content in messages]


def test_a_silent_cell_counts_and_leaves_nothing(ran):
    assert ran["silent"] == ([], ["running, 0 s", "running, 1 s"])


@pytest.mark.parametrize("name", ["quick", "quick with a value", "speaks first"])
def test_a_cell_that_is_quick_or_speaks_shows_no_line(ran, name):
    assert not any(line.startswith("running") for line in ran[name][1])


@pytest.mark.parametrize("name", ["runs a cell", "waits", "clears"])
def test_a_line_is_shown_once_and_taken_away(ran, name):
    assert ran[name] == ([], ["running, 0 s"])


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("speaks first", {"text": "first\n"}),
        ("speaks late", {"text": "late\n"}),
        ("value", {"data": {"text/plain": "42"}}),
        ("raises", {"evalue": "broken"}),
        ("thread", {"text": "from a thread\n"}),
    ],
)
def test_what_a_cell_says_stands_where_the_line_was(ran, name, left):
    (output,) = ran[name][0]
    assert left.items() <= output.items()


def test_a_cell_that_shows_its_own_progress_has_that_alone(ran):
    (output,) = ran["shows progress"][0]
    assert output.data["text/plain"] == "work: 1 s"
    assert not any(line.startswith("running") for line in ran["shows progress"][1])


def test_the_line_says_that_pytorch_is_being_loaded(ran):
    assert ran["loads"] == ([], ["loading PyTorch, 0 s; up to 15 s the first time"])


def test_what_a_fork_of_the_kernel_prints_is_not_cleared_away(ran):
    assert "".join(output.text for output in ran["fork"][0]) == "from the fork\n"


def test_threads_end_with_their_cells(ran):
    assert ran["the rest"][0][0].data["text/plain"] == "1", "that of the cell that asks"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A client of the kernel that `lab` offers."""
    environment = {"JUPYTER_PATH": os.environ.get("JUPYTER_PATH", "")}
    lab.offer_kernel(environment, tmp_path)
    monkeypatch.setenv("JUPYTER_PATH", environment["JUPYTER_PATH"])
    assert KernelSpecManager().get_kernel_spec("python3").resource_dir.startswith(str(tmp_path))
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=PATIENCE)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def until(client, asked, wanted):
    """The messages of a cell up to the first of the kind `wanted`."""
    heard = []
    while not heard or heard[-1][0] != wanted:
        try:
            message = client.get_iopub_msg(timeout=PATIENCE)
        except queue.Empty:
            pytest.fail(f"no {wanted} after {heard}")
        if message["parent_header"].get("msg_id") == asked:
            content = message["content"]
            idle = content.get("execution_state") == "idle"
            heard.append(("idle" if idle else message["msg_type"], content))
    return heard


def test_in_the_lab_the_first_cell_is_covered_before_it_imports_anything_of_ours(kernel):
    _, client = kernel
    asked = client.execute("import sys\nassert 'gpipe_edu' in sys.modules\nimport time\ntime.sleep(3.2)")
    assert spoken(until(client, asked, "display_data"))[-1] == ("display_data", "running, 3 s"), "2.5, rounded"
    kinds = [kind for kind, _ in until(client, asked, "idle")]
    assert "clear_output" in kinds
    assert "error" not in kinds


def test_a_widget_that_catches_output_catches_no_line(kernel):
    """Not by nbclient, which once in a hundred times waits in vain behind such a widget."""
    _, client = kernel
    client.execute(SOON, reply=True, timeout=PATIENCE)
    kinds = [kind for kind, _ in until(client, client.execute(WIDGET), "idle")]
    assert "stream" in kinds
    assert not {"display_data", "clear_output"} & set(kinds)


def test_a_question_stands_where_the_line_was_and_an_interrupt_ends_it(kernel):
    manager, client = kernel
    client.execute(SOON, reply=True, timeout=PATIENCE)
    asked = client.execute("time.sleep(0.6)\nprint(input('name?'))", allow_stdin=True)
    until(client, asked, "clear_output")
    assert client.get_stdin_msg(timeout=PATIENCE)["content"]["prompt"] == "name?"
    client.input("Ada")
    heard = until(client, asked, "idle")
    assert [content["text"] for kind, content in heard if kind == "stream"] == ["Ada\n"]
    assert not any(kind.endswith("display_data") for kind, _ in heard)

    asked = client.execute("time.sleep(60)")
    until(client, asked, "display_data")
    manager.interrupt_kernel()
    heard = until(client, asked, "idle")
    assert [kind for kind, _ in heard if kind in ("clear_output", "error")] == ["clear_output", "error"]
    assert heard[-2][1]["ename"] == "KeyboardInterrupt"
