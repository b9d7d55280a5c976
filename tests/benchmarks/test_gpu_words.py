"""What `make gpu` says: met or missed and by how much, measured against planned, and the lines in two READMEs."""

import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import lines, report, speed
from benchmarks.gpu.findings import Findings, read
from gpipe_edu.sizing import presets
from gpipe_edu.sizing.machine_file import Product

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "most", "unit", "holds", "text"),
    [
        (2.1, 3, " %", True, "2.1 %, asked for: at most 3 %; met by 0.9 %"),
        (-1.5, 5, " %", True, "-1.5 %, asked for: at most 5 %; met by 6.5 %"),
        (9.25, 8, " %", False, "9.2 %, asked for: at most 8 %; missed by 1.2 %"),
        (1e-14, 1e-10, "", True, "1e-14, asked for: at most 1e-10; met, 0.0001 of it"),
        (1e-6, 1e-10, "", False, "1e-06, asked for: at most 1e-10; missed, 1e+04 times as much"),
        (float("inf"), 1e-10, "", False, "inf, asked for: at most 1e-10; missed, inf times as much"),
        (float("nan"), 5, " %", False, "nan %, asked for: at most 5 %; missed by nan %"),
    ],
)
def test_a_bar_is_met_or_missed_by_so_much(tmp_path, value, most, unit, holds, text):
    Findings(tmp_path / "found").bar("a bar", value, most, unit, timed=True)
    (found,) = read(tmp_path / "found")
    assert (found["holds"], found["text"]) == (holds, text)


def test_what_is_no_number_is_infinitely_far():
    from benchmarks.gpu.equality import difference

    one, none = torch.ones(2), torch.tensor([1.0, float("nan")])
    assert difference([one * 2, one], [one, one * 4]) == 0.75
    assert difference([one, none], [one, one]) == float("inf")


def test_times_of_a_pretended_gpu_are_not_judged_but_its_numbers_are(tmp_path):
    found = Findings(tmp_path / "found", pretended=True)
    found.bar("time", 1, 5, " %", timed=True)
    found.bar("number", 1, 5)
    time, number = read(tmp_path / "found")
    assert (time["holds"], number["holds"]) == (None, True)
    assert time["text"].endswith("not judged: the GPU is pretended")


def test_a_finding_that_was_cut_off_is_left_out(tmp_path):
    Findings(tmp_path / "found").figure("a", "1")
    with (tmp_path / "found").open("a") as file:
        file.write('{"kind": "fig')
    assert [each["name"] for each in read(tmp_path / "found")] == ["a"]
    assert read(tmp_path / "none") == []


def test_what_is_asked_of_a_step_is_what_was_promised():
    assert speed.asked_for(1, 1.0) == {"gpipe, never": 3}
    assert speed.asked_for(1, 0.1) == {"gpipe, never": 8}
    assert speed.asked_for(2, 10.0) == {"gpipe, never": 5, "1f1b, never": 5}
    assert speed.asked_for(1, 10.0) == speed.asked_for(4, 1.0) == {}


def test_a_machine_is_told_as_a_share_of_the_planner_s():
    from benchmarks.gpu.machine import against

    planned = presets.presets("machines")["h100"]
    figures = {"bandwidth": 2.68e12, "memory": 80e9}
    found = against(planned, figures, [Product(512, 1e14), Product(8192, 7.147e14)])
    assert found == {
        "best product": "7.15e+14 / 7.94e+14 = 0.90",
        "bandwidth": "2.68e+12 / 3.35e+12 = 0.80",
        "memory": "8e+10 / 8e+10 = 1.00",
    }


def results(card="NVIDIA H100 80GB HBM3", late=False, **changes):
    bar = {"kind": "bar", "name": "one stage", "text": "2 %, met", "holds": True, "value": 2, "most": 3, "unit": " %"}
    exact = {**bar, "name": "float64", "unit": "", "text": "1e-15"}
    findings = [{"kind": "figure", "name": "card", "text": card}, exact, bar]
    part = {"name": "speed", "seconds": 1, "ended": "exit status 1" if late else "", "findings": findings}
    return {"date": "2026-12-01", "pretended": False, "parts": [part], **changes}


def test_the_lines_are_those_of_what_is_in_the_folder():
    for place in lines.PLACES:
        text = (ROOT / place).read_text(encoding="utf-8")
        assert lines.written(place, text, lines.runs()) == text, f"run: python -m benchmarks.gpu.lines ({place})"


def test_lines_come_from_the_results_alone(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(results()))
    (tmp_path / "b.json").write_text(json.dumps(results("Tesla T4", late=True)))
    (tmp_path / "c.json").write_text(json.dumps(results(pretended=True)))
    found = lines.runs(tmp_path)
    assert lines.for_readme(found) == (
        "[all held on NVIDIA H100 80GB HBM3](benchmarks/gpu/nvidia-h100-80gb-hbm3.md), "
        "[not all held on Tesla T4](benchmarks/gpu/tesla-t4.md)"
    )
    assert lines.for_benchmarks(found[:1]) == (
        "[NVIDIA H100 80GB HBM3](gpu/nvidia-h100-80gb-hbm3.md), 2026-12-01, "
        "2 hold, 0 do not, 0 were not asked, one stage: 2 %, met"
    )
    for place in lines.PLACES:
        text = (ROOT / place).read_text(encoding="utf-8")
        assert lines.written(place, lines.written(place, text, found), []) == lines.written(place, text, [])


def test_a_file_without_its_place_is_refused():
    with pytest.raises(ValueError, match=re.escape("README.md has 0 places for the line on GPUs")):
        lines.written("README.md", "nothing", [])


def test_a_page_lists_what_does_not_hold_above_its_table():
    found = results()
    found["parts"][0]["findings"][-1].update(holds=False, text="9 %, missed | by 6 %")
    page = report.page(found)
    head, table = page.split("| part | what | | found |")
    assert "- **one stage**: 9 %, missed | by 6 %" in head
    assert "| speed | one stage | **does not hold** | 9 %, missed \\| by 6 % |" in table
    assert not report.holds(found)
