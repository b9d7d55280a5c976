"""What docs/cluster.md says runs, and what it plans is what the planner says today."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from gpipe_edu.sizing import SearchSpace
from tests.processes import PATIENCE

from . import ports, preloaded
from .cluster import starting

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[1] / "docs" / "cluster.md"


def test_the_program_runs_as_it_stands(tmp_path):
    pytest.importorskip("torch", minversion="2.12", reason="the program of this page trains with PyTorch")
    text = PAGE.read_text(encoding="utf-8")
    block = next(found for found in re.split(r"\n\n(?=\S)", text) if "with Ranks() as ranks" in found)
    program = tmp_path / "program.py"
    lines = [line.removeprefix("    ") for line in block.splitlines()]
    program.write_text("\n".join([*lines, "    if ranks.rank == 0:", "        print(len(timeline.spans), 'spans')"]))
    with starting.torchrun(str(program)) as process:
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0, told
    assert "32 spans" in told


def blocks(*words):
    """The page's code in which these words are, one block after another."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return "\n".join(next(block for block in found if word in block) for word in words)


def test_layers_that_ranks_build_train_and_are_saved_as_it_says(tmp_path):
    """Two runs of fewer steps than are shown; the second goes on behind the first."""
    pytest.importorskip("torch", minversion="2.12", reason="the programs of this page train with PyTorch")
    before = [
        "import torch",
        "from torch import nn",
        "import gpipe_edu as ge",
        "from gpipe_edu.cluster import Pipeline, Ranks",
        "with Ranks() as ranks:",
        "    schedule = ge.one_f_one_b(ranks.size, 8)",
    ]
    middle = "    optimizer = torch.optim.Adam(pipeline.parameter_groups())"
    after = "    if ranks.rank == 0:\n        print('step', step, place)"
    program = tmp_path / "program.py"
    text = "\n".join([*before, blocks("import build_layers"), middle, blocks("import load, save"), after])
    for steps in (2, 3):
        program.write_text(text.replace('"run"', repr(str(tmp_path / "run"))).replace("1000", str(steps)))
        with starting.torchrun(str(program)) as process:
            told = process.communicate(timeout=PATIENCE)[0]
            assert process.returncode == 0, told
        assert f"step {steps - 1} {{'batch': {steps}}}" in told


def test_it_quotes_of_which_ways_a_plan_speaks():
    assert str(SearchSpace()) in " ".join(PAGE.read_text(encoding="utf-8").replace("\n> ", " ").split())


def test_it_says_after_which_silence_a_rank_is_missed():
    pytest.importorskip("torch", minversion="2.12", reason="ranks are PyTorch's")
    from gpipe_edu.cluster import watch

    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert watch.BEAT == 0.5
    assert "sends it a heartbeat every half second" in text
    assert f"SIGTERM, as by `scancel` | after {watch.GRACE:g} seconds" in text
    assert f"or the cable is gone | after {watch.SILENCE:g} seconds" in text
    assert f"holds Python's lock for {watch.SILENCE:g} seconds" in text
    assert f"when all have waited for {watch._STUCK:g} seconds" in text


def test_the_loop_of_a_shell_trains():
    pytest.importorskip("torch", minversion="2.12", reason="ranks are PyTorch's")
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    [start] = [number for number, line in enumerate(lines) if line.startswith("    export WORLD_SIZE=2")]
    script = "\n".join(line.strip() for line in lines[start : start + 2])
    script = script.replace("29500", str(ports.free())).replace("python -m", f"{preloaded.python()} -m")
    done = subprocess.run(
        ["bash", "-c", script.replace("--partitions", "--epochs 1 --partitions")],
        capture_output=True,
        text=True,
        env=starting.environment(),
        timeout=PATIENCE,
    )
    assert "2 on 1 host: 1 replica of 2 devices" in done.stdout, done.stderr
    assert done.stderr == ""


def rows():
    text = PAGE.read_text(encoding="utf-8").partition("<!-- plans -->")[2]
    [head, _, *found] = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    before = re.search(r"`python -m gpipe_edu plan(.*)`", head[0])[1]
    return [(f"{before} {row[0].strip('`')}", *row[1:]) for row in found]


@pytest.mark.parametrize(("command", "best", "step", "bubble", "memory"), rows())
def test_the_plans_are_the_planner_s(command, best, step, bubble, memory):
    said = subprocess.run(
        [preloaded.python(), "-m", "gpipe_edu", "plan", *shlex.split(command), "--verbose"],
        capture_output=True,
        text=True,
        env=starting.environment(),
        timeout=PATIENCE,
        check=True,
    ).stdout
    assert f"take {best} " in " ".join(said.split())
    [line] = [line for line in said.splitlines() if line.startswith("*")]
    assert all(part.replace(" %", "%") in line for part in (step, bubble, memory)), line
