"""What docs/measured_run.md says to type and to write opens a run and names Megatron's ops."""

import re
import shlex
import sys
import types
from pathlib import Path

import pytest
import typer.main

import gpipe_edu as ge
from gpipe_edu.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "measured_run.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "tests" / "timeline" / "opened" / "files" / "kineto_cpu_slow_rank_2"


def code(*words):
    """The block of Python in which these words are."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return next(block for block in blocks if all(word in block for word in words))


def test_the_code_that_opens_a_run_runs_and_has_the_fields_it_names(monkeypatch, tmp_path, capsys):
    pytest.importorskip("anywidget", reason="the page draws the widget")
    (tmp_path / "traces").symlink_to(SAMPLE, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code("ge.load"), names)
    assert "The bubble is 39.7%" in capsys.readouterr().out
    exec(code("found.balance"), names)
    assert names["found"].slowest_stage == 2


def test_the_commands_are_ones_and_have_these_options():
    commands = typer.main.get_command(app).commands
    lines = re.findall(r"^gpipe-edu (.*)", "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)), re.M)
    assert lines
    for line in lines:
        name, *arguments = shlex.split(line, comments=True)
        commands[name].make_context(name, arguments)


def test_the_lines_for_megatron_name_each_op(monkeypatch, tmp_path):
    """With a stand-in that calls what its schedules call, by the names of its module."""
    torch = pytest.importorskip("torch", reason="names are PyTorch's profiler's")
    schedules = types.ModuleType("megatron.core.pipeline_parallel.schedules")
    exec(
        "def forward_step(x): return x.sin().sum()\n"
        "def backward_step(loss): loss.backward()\n"
        "def run(x, order):\n"
        "    kept = []\n"
        "    for kind in order:\n"
        "        kept.append(forward_step(x)) if kind == 'F' else backward_step(kept.pop(0))\n",
        schedules.__dict__,
    )
    state = types.SimpleNamespace(get_pipeline_model_parallel_rank=lambda: 0)
    calculator = types.SimpleNamespace(get_num_microbatches=lambda: 3)
    core = types.SimpleNamespace(parallel_state=state)
    for name, module in {
        "megatron": types.SimpleNamespace(core=core),
        "megatron.core": core,
        "megatron.core.num_microbatches_calculator": calculator,
        "megatron.core.pipeline_parallel": types.SimpleNamespace(schedules=schedules),
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    exec(code("megatron"), {})
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(2):
            schedules.run(torch.ones(9, requires_grad=True), "FFBFBB")
    found.export_chrome_trace(str(tmp_path / "rank0_trace.json"))
    assert [str(span.op) for span in ge.load(tmp_path, step=0).spans] == [
        "F0@0",
        "F1@0",
        "B0@0",
        "F2@0",
        "B1@0",
        "B2@0",
    ]
