"""Importing the package loads no heavy library, so that a schedule lesson starts at once."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gpipe_edu as ge
from tests.processes import PATIENCE, printed

ROOT = Path(__file__).parents[1]
IMPORT = re.compile(r"from (gpipe_edu[\w.]*) import (\([^)]*\)|(?:\w+(?: as \w+)?(?:, )?)+)")
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


def promised():
    """The names that a version promises, by module; what lacks here may go, what is here may not."""
    lines = (Path(__file__).with_name("public_names.txt")).read_text(encoding="utf-8").splitlines()
    return {module: names.split() for module, _, names in (line.partition(":") for line in lines)}


def test_the_names_that_a_version_promises_are_those_of_the_list():
    rooms = promised()
    assert [name for name in rooms.pop("modules") if find_spec(name) is None] == []
    for module, names in rooms.items():
        path = ROOT / module.replace(".", "/")
        source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
        listed = re.search(r"^__all__ = (\[[^\]]*\])", source, re.MULTILINE)
        assert sorted(ast.literal_eval(listed[1])) == sorted(names), f"{module}: change tests/public_names.txt, too"
    assert [name for name in ge.__all__ if not hasattr(ge, name)] == []


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


def test_notebooks_and_docs_import_only_what_is_promised():
    known, used = promised(), 0
    for path in [ROOT / "README.md", *ROOT.glob("docs/*"), *ROOT.glob("notebooks/*"), *ROOT.glob("exercises/*")]:
        text = path.read_text(encoding="utf-8") if path.suffix in (".md", ".ipynb") else ""
        for module, names in IMPORT.findall(text):
            for name in re.findall(r"(\w+)(?: as \w+)?", names.replace("\\n", " ")):
                used += 1
                assert name in known.get(module, ()) or f"{module}.{name}" in known["modules"], (
                    f"{path.name}: {module}.{name}"
                )
    assert used > 250
