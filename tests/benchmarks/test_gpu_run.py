"""Each part of `make gpu` has a process and a limit of its own, and what was found before stays."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.run import PARTS, TOTAL, run
from benchmarks.gpu.sizes import SMALL
from tests.processes import runs, until

pytestmark = pytest.mark.slow

ENDS, HANGS = "tests.benchmarks.part_that_ends", "tests.benchmarks.part_that_hangs"


def written(folder):
    (file,) = folder.glob("*.json")
    return json.loads(file.read_text()), file.with_suffix(".md").read_text()


def test_all_limits_together_are_less_than_eight_minutes():
    assert sum(PARTS.values()) <= TOTAL < 480


def test_parts_that_hold_end_with_0(tmp_path, capfd):
    assert run(tmp_path, SMALL, {ENDS: 60}) == 0
    results, page = written(tmp_path)
    assert results["parts"][0]["ended"] == ""
    assert page.startswith("# NVIDIA X100 80GB\n")
    assert "| part_that_ends | weather | holds | fine |" in page
    assert "1 hold, 0 do not, 0 were not asked" in capfd.readouterr().out
    assert [file.name for file in tmp_path.glob("*.json")] == ["nvidia-x100-80gb.json"]


def test_a_part_that_hangs_is_killed_with_all_it_started_and_named_and_the_others_stay(tmp_path, capfd):
    assert run(tmp_path, SMALL, {ENDS: 60, HANGS: 15}) == 1
    results, page = written(tmp_path)
    before, hung = results["parts"]
    assert before["findings"][-1]["holds"] is True
    assert hung["ended"] == "ended at its limit of 15 s"
    assert "before it hangs" in hung["printed"]
    (child,) = (each["text"] for each in hung["findings"] if each["kind"] == "figure")
    until(lambda: not runs(int(child)))
    assert "| part_that_hangs | the whole part | **does not hold** | ended at its limit of 15 s, after " in page
    assert "What part_that_hangs printed last:" in page
    assert "not at their end: part_that_hangs (ended at its limit of 15 s)" in capfd.readouterr().out


def test_what_was_found_is_on_the_disk_while_the_next_part_runs(tmp_path, monkeypatch):
    import benchmarks.gpu.run as module

    plain, seen = module._run_part, []

    def looking(name, *given):
        seen.extend(json.loads(file.read_text()) for file in tmp_path.glob("*.json"))
        if name == HANGS:
            raise KeyboardInterrupt
        return plain(name, *given)

    monkeypatch.setattr(module, "_run_part", looking)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, SMALL, {ENDS: 60, HANGS: 60})
    results, _ = written(tmp_path)
    assert seen == [results]
    assert [part["ended"] for part in results["parts"]] == ["", "it was not reached"]


def test_a_part_that_starts_late_gets_what_is_left_and_says_so(tmp_path):
    assert run(tmp_path, SMALL, {HANGS: 60, ENDS: 60}, total=15) == 1
    results, page = written(tmp_path)
    late, none = results["parts"]
    assert late["ended"] == "ended at its limit of 15 s instead of 60, as no more was left"
    assert none["ended"] == "no time was left for it"
    assert "| part_that_ends | the whole part | **does not hold** | no time was left for it, after 0 s |" in page


def test_a_part_that_fails_is_named_with_what_it_printed(tmp_path):
    assert run(tmp_path, SMALL, {ENDS: 60, "tests.benchmarks.no_such_part": 60}) == 1
    results, _ = written(tmp_path)
    assert results["parts"][1]["ended"] == "exit status 1"
    assert "no_such_part" in results["parts"][1]["printed"]


def test_without_a_gpu_it_says_so_and_exits_with_2():
    root = Path(__file__).parents[2]
    before = sorted((root / "benchmarks" / "gpu").iterdir())
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 2
    said = r"not run: PyTorch \S+ finds no GPU that it can use here; it is built (for|without) CUDA"
    assert re.match(said, done.stdout.splitlines()[-1])
    assert sorted((root / "benchmarks" / "gpu").iterdir()) == before
