"""All of `make gpu`, on a GPU that is pretended: what it writes, what it needs, and that it notices a broken engine."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.run import PARTS
from tests.pytorch.pretend_gpu.build import COMPILER, built

from . import rehearsal

ROOT = Path(__file__).parents[2]
NOT_NEEDED = ("cloudpickle", "anywidget", "traitlets", "ipywidgets", "IPython", "jupyter", "nbformat", "matplotlib")
NOT_NEEDED += ("gpipe_edu.cluster",)  # which refuses PyTorch 2.11
FORBID = f"""
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({NOT_NEEDED}):
            raise ModuleNotFoundError(f"{{name}} is forbidden here", name=name)
sys.meta_path.insert(0, Forbidden())
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="the pretend GPU is compiled, and there is no C++ compiler (c++)"),
    pytest.mark.skipif(sys.platform != "linux", reason="the pretend GPU is tested on Linux only"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Exit status, output, folder and results of a rehearsal whose processes may not import what is not needed."""
    built()
    folder, forbidding = tmp_path_factory.mktemp("gpu"), tmp_path_factory.mktemp("forbidding")
    (forbidding / "sitecustomize.py").write_text(FORBID)
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.rehearsal", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(forbidding)},
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    return done, folder, json.loads((folder / "a-pretended-gpu.json").read_text())


def test_it_ends_well_without_what_it_does_not_need(written):
    done, _, results = written
    assert done.returncode == 0
    assert [part["name"] for part in results["parts"]] == [name.rpartition(".")[2] for name in PARTS]
    assert not any(part["ended"] for part in results["parts"])
    assert "is forbidden" not in done.stdout + done.stderr


def test_what_is_forbidden_would_have_been_noticed(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(FORBID)
    for name in NOT_NEEDED:
        command = [sys.executable, "-c", f"import {name}"]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
        assert f"{name} is forbidden here" in done.stderr


def test_every_part_held_what_could_be_asked_and_no_access_raced(written):
    *_, results = written
    for part in results["parts"]:
        asked = {each["name"]: each["holds"] for each in part["findings"] if "holds" in each}
        assert asked.pop("order") is True, part["name"]
        assert False not in asked.values(), part["name"]


@pytest.mark.parametrize(
    "start",
    [
        "two streams that sleep",
        "beyond accumulation: 1 stage, ops of 0.1 ms, M = 8, gpipe, never",
        "beyond accumulation: 2 stages",
        "starts and ends against kernels",
        "calibrate",
    ],
)
def test_what_only_a_real_gpu_can_answer_does_not_count_as_held(written, start):
    *_, results = written
    found = [each for part in results["parts"] for each in part["findings"] if each.get("name", "").startswith(start)]
    assert found
    for each in found:
        assert each["holds"] is None
        assert "not judged: the GPU is pretended" in each["text"] or each["text"].startswith("not asked: ")


def test_equality_is_judged_with_what_was_asked_for(written):
    *_, results = written
    bars = {each["name"]: each for part in results["parts"] for each in part["findings"] if each["kind"] == "bar"}
    exact = [each for name, each in bars.items() if name.startswith("float64")]
    assert len(exact) == 13
    assert all(each["most"] == 1e-10 and each["value"] < 1e-13 for each in exact)


def test_the_page_names_what_ran_and_has_the_picture(written):
    done, folder, results = written
    page = (folder / "a-pretended-gpu.md").read_text()
    assert page.startswith("# a pretended GPU\n")
    assert "The GPU is pretended: this says nothing about a real one." in page
    assert results["date"] in page
    assert "| speed | 4 stages, ops of 0.1 ms, M = 8: zero_bubble, never |" in page
    assert "![Measured](a-pretended-gpu_timeline.svg)" in page
    picture = (folder / "a-pretended-gpu_timeline.svg").read_text()
    assert picture.startswith("<svg")
    assert "4 streams of one GPU, by CUDA events" in picture
    assert page.count(" hold, 0 do not, ") == 1
    assert page.split("\n")[4].rstrip(".") in done.stdout


def test_the_trace_that_is_kept_is_of_a_step_as_it_runs_in_workers(written):
    _, folder, _ = written
    events = json.loads(gzip.decompress((folder / "a-pretended-gpu_trace.json.gz").read_bytes()))["traceEvents"]
    threads = {event["name"][:4]: set() for event in events if event["name"].startswith("PP:")}
    for event in events:
        threads.get(event["name"][:4], set()).add(event["tid"])
    assert sorted(threads) == ["PP:0", "PP:1", "PP:2", "PP:3"]
    assert len(set.union(*threads.values())) == 4


SLEEPERS = ("benchmarks.gpu.environment", "benchmarks.gpu.sleepers")


def test_an_engine_without_a_wait_is_noticed_by_its_order(tmp_path):
    assert rehearsal.rehearse(tmp_path, *SLEEPERS, stand_in="tests.benchmarks.engine_without_events") == 1
    page = (tmp_path / "a-pretended-gpu.md").read_text()
    assert re.search(r"\| sleepers \| order \| \*\*does not hold\*\* \| .* before what was written by .*", page)
    assert "| environment | order | holds |" in page


def test_an_engine_that_is_slightly_off_is_noticed_by_its_numbers(tmp_path):
    assert rehearsal.rehearse(tmp_path, *SLEEPERS, stand_in="tests.benchmarks.engine_slightly_off") == 1
    page = (tmp_path / "a-pretended-gpu.md").read_text()
    assert "| sleepers | a wrong step | **does not hold** | the first is step 0, by naive, checkpoint always |" in page
    assert re.search(r"- \*\*float64, 12 steps\*\*: \S+e-0[789], asked for: at most 1e-10; missed, ", page)
