"""Importing the package loads no heavy library, so that a schedule lesson starts at once."""

import os
import subprocess
import sys

import gpipe_edu as ge
from tests.processes import PATIENCE, printed

HEAVY = ("torch", "matplotlib", "ipywidgets", "anywidget", "IPython", "traitlets")


def test_importing_loads_neither_torch_nor_matplotlib_nor_widgets():
    loaded = printed(f"import sys, gpipe_edu\nprint([name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "[]\n"


def test_checking_simulating_and_saving_a_schedule_loads_none_of_them_either(tmp_path):
    code = f"""
import sys
import gpipe_edu as ge
timeline = ge.simulate(ge.gpipe(4, 8).check())
timeline.critical_path(), timeline.peak_in_flight, timeline.bubble_fraction
timeline.save_trace({str(tmp_path / "trace.json")!r})
ge.join_batch(ge.split_batch(__import__("numpy").zeros(5), 2))
ge.balance_by_cost([1, 2, 3], 2)
print([name for name in {HEAVY} if name in sys.modules])"""
    assert printed(code) == "[]\n"


def test_a_browser_needs_neither_psutil_nor_locks_nor_a_command_line():
    code = """
import sys
sys.platform = "emscripten"
sys.modules.update(dict.fromkeys(("psutil", "filelock", "typer", "rich")))
import gpipe_edu.judge.same_process
from gpipe_edu.course import check, predict, progress
print("here")"""
    assert printed(code) == "here\n"


def test_a_folder_of_its_name_hides_nothing(tmp_path):
    """Such as the clone, for a script in the folder around it."""
    (tmp_path / "gpipe_edu").mkdir()
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import gpipe_edu; gpipe_edu.Schedule"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=known, check=True, timeout=PATIENCE)


def test_every_public_name_is_there():
    assert [name for name in ge.__all__ if not hasattr(ge, name)] == []
    assert len(set(ge.__all__)) == len(ge.__all__)
    contract = "split_batch join_batch balance_uniform balance_by_cost Op Schedule naive gpipe one_f_one_b interleaved"
    assert set(ge.__all__) >= {*contract.split(), "zero_bubble", "Costs", "simulate", "Timeline", "formulas"}


def test_without_pytorch_an_engine_says_what_to_install_and_what_runs():
    code = """
import sys
sys.modules["torch"] = None
for name in ("pytorch", "cluster"):
    try:
        __import__(f"gpipe_edu.{name}")
    except ModuleNotFoundError as error:
        print(error.name, error)
import gpipe_edu.reference"""
    first, second = printed(code).splitlines()
    for name, said in (("pytorch", first), ("cluster", second)):
        assert said.startswith(f"torch gpipe_edu.{name} needs PyTorch, which is not here: ")
        assert '-m pip install "gpipe_edu[torch]". Schedules, simulate, ' in said
