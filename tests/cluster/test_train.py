"""`torchrun ... -m gpipe_edu train`: one command, the same table, one timeline of all ranks, and it goes on."""

import json
import re

import pytest

from gpipe_edu.cluster.saving import saved_steps
from gpipe_edu.timeline import Timeline
from tests.processes import PATIENCE

from . import starting

pytestmark = pytest.mark.slow


def trained(*arguments, size=2):
    with starting.torchrun(*starting.JOB, *arguments, size=size) as process:
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0, told
    return told


def test_two_ranks_print_one_table_and_write_one_timeline(tmp_path):
    file = tmp_path / "run.json"
    told = trained("--schedule", "1f1b", "--trace", str(file))
    assert told.count("epoch 1: loss") == 1
    rows = ("ranks", "step", "one device", "bubble, planned", "bubble, measured", "links", "clocks", "gradients")
    assert all(any(line.startswith(row) for line in told.splitlines()) for row in rows), told
    assert "2 on 1 host: 1 replica of 2 devices" in told
    difference = next(line for line in told.splitlines() if line.startswith("gradients")).split("by ")[1].split()[0]
    assert float(difference) < 1e-10
    timeline = Timeline.load_trace(file)
    assert (timeline.devices, len(timeline.spans), timeline.source) == (2, 16, "measured")
    assert json.loads(file.read_text())


def test_replicas_with_zero_1_go_on_from_what_was_saved(tmp_path):
    replicas = ("--partitions", "1", "--zero")
    whole = trained(*replicas, "--epochs", "2")
    assert "2 on 1 host: 2 replicas of 1 device" in whole
    trained(*replicas, "--save", str(tmp_path))
    assert saved_steps(tmp_path)
    again = trained(*replicas, "--save", str(tmp_path), "--epochs", "2")
    line = [line for line in whole.splitlines() if line.startswith("epoch 2")]
    assert line == [line for line in again.splitlines() if line.startswith("epoch 2")]
    still = trained(*replicas, "--save", str(tmp_path), "--epochs", "4", "--learning-rate", "0")
    third, fourth = (line.split("accuracy")[1] for line in still.splitlines() if re.match("epoch [34]", line))
    assert third == fourth, "the learning rate is that of the command"


def test_ranks_that_torchrun_starts_again_go_on_by_themselves(tmp_path):
    """The page's line, with rank 1 killed in its sixth step; four were saved."""
    job = starting.JOB[2:]
    again = ("--max-restarts=1", "-m", "tests.cluster.restarted", *job, "--epochs", "2", "--save", str(tmp_path))
    with starting.torchrun(*again) as process:
        told = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode == 0, told
    assert "Goes on after step 4, which is saved" in told
    whole = trained("--epochs", "2")
    [line] = [line for line in whole.splitlines() if line.startswith("epoch 2")]
    assert line in told.splitlines()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--partitions", "3"), "2 ranks can't hold replicas of a pipeline of 3: start 3 processes"),
        (("--zero",), "--zero shares the optimizer among replicas, but there is one"),
    ],
)
def test_what_does_not_fit_is_one_sentence(arguments, told):
    with starting.torchrun(*starting.JOB, *arguments) as process:
        said = process.communicate(timeout=PATIENCE)[0]
        assert process.returncode != 0
    assert told in said
    assert "Traceback" not in said.split(told)[0]
