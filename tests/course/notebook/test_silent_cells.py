"""In a real kernel: a silent cell counts its seconds; when it speaks or ends, nothing of the line is left."""

import os
import queue
import re

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from gpipe_edu.course.commands import lab
from tests import kernels
from tests.processes import PATIENCE

pytestmark = pytest.mark.slow

AT_LEISURE = "import time, sys, gpipe_edu.course.notebook.silent_cells as running\nrunning.PATIENCE = 3"
"""No line for cells that are over by then, or have spoken, however long they have to wait for a CPU."""
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
    time.sleep(4)
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
    "at leisure": AT_LEISURE,
    "quick": "time.sleep(0.1)",
    "quick with a value": "6 * 7",
    "speaks first": "print('first')\ntime.sleep(4)",
    "soon": SOON,
    "silent": "time.sleep(1.7)",
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
    client = kernels.client(nbformat.v4.new_notebook(cells=cells), Listener, allow_errors=True)
    client.execute()
    return {
        name: (cell.outputs, [text for kind, text in spoken(client.heard[cell.id]) if kind.endswith("display_data")])
        for name, cell in zip(CELLS, client.nb.cells, strict=True)
    }


def spoken(messages):
    return [(kind, content.get("data", {}).get("text/plain", "")) for kind, content in messages]


def counted(lines, what="running, {} s"):
    """Whether that is one line or more, each of a later second."""
    seconds = [int(re.search(r"(\d+) s", line)[1]) for line in lines]
    return lines and lines == [what.format(number) for number in sorted(set(seconds))]


def test_a_silent_cell_counts_and_leaves_nothing(ran):
    left, lines = ran["silent"]
    assert left == []
    assert counted(lines)
    assert len(lines) > 1


@pytest.mark.parametrize("name", ["quick", "quick with a value", "speaks first"])
def test_a_cell_that_is_quick_or_speaks_shows_no_line(ran, name):
    assert not any(line.startswith("running") for line in ran[name][1])


@pytest.mark.parametrize("name", ["runs a cell", "waits", "clears"])
def test_a_line_is_shown_and_taken_away(ran, name):
    left, lines = ran[name]
    assert left == []
    assert counted(lines)


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
    assert re.fullmatch(r"work: \d+ s", output.data["text/plain"])
    assert not any(line.startswith("running") for line in ran["shows progress"][1])


def test_the_line_says_that_pytorch_is_being_loaded(ran):
    left, lines = ran["loads"]
    assert left == []
    assert counted(lines, "loading PyTorch, {} s; up to 15 s the first time")


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
    asked = client.execute("import sys\nassert 'gpipe_edu' in sys.modules\nimport time\ntime.sleep(6)")
    assert re.fullmatch(r"running, [3-6] s", spoken(until(client, asked, "display_data"))[-1][1])
    kinds = [kind for kind, _ in until(client, asked, "idle")]
    assert "clear_output" in kinds
    assert "error" not in kinds


def test_a_widget_that_catches_output_catches_no_line(kernel):
    """Not by nbclient, which once in a hundred times waits in vain behind such a widget."""
    _, client = kernel
    client.execute(f"{AT_LEISURE}\nimport ipywidgets", reply=True, timeout=PATIENCE)
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

    asked = client.execute("time.sleep(600)")
    until(client, asked, "display_data")
    manager.interrupt_kernel()
    heard = until(client, asked, "idle")
    assert [kind for kind, _ in heard if kind in ("clear_output", "error")] == ["clear_output", "error"]
    assert heard[-2][1]["ename"] == "KeyboardInterrupt"
