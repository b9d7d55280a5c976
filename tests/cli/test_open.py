"""`gpipe-edu open`: what a person is told of a measured run, and what is written of it."""

import json
from html import escape
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

import gpipe_edu as ge
from gpipe_edu.cli import opening
from gpipe_edu.timeline.opened import open_files
from tests.timeline.opened import traces

FILES = Path(__file__).parents[1] / "timeline" / "opened" / "files"

pytestmark = pytest.mark.slow


def test_a_measured_run_is_shown_with_its_bubble_and_what_it_says(run, tmp_path):
    picture, trace = tmp_path / "step.svg", tmp_path / "step.json"
    code, out, _ = run("open", str(FILES / "kineto_cpu_slow_rank_2"), "--figure", str(picture), "--trace", str(trace))
    told = " ".join(out.split())
    assert code == 0
    assert told.startswith("traces of torch.profiler, of ranks 0, 1, 2, 3; ops by operations on the CPU one whole step")
    assert "device 3" in told
    assert "The bubble is 39.7% of a step of 4.58 s; the same order at these costs has 39.7%" in told
    assert "Stage 2 is the slowest, with 1.60 times the others' median" in told
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert ge.load(trace).bubble_fraction == pytest.approx(0.397, abs=0.001)


def test_other_programs_are_answered(run, tmp_path):
    picture = tmp_path / "step.svg"
    code, out, _ = run("open", str(FILES / "kineto_gpu"), "--json", "--figure", str(picture))
    found, diagnosis = json.loads(out), ge.diagnose(ge.load(FILES / "kineto_gpu"))
    assert code == 0
    assert picture.exists()
    assert found["step"]["source"] == "measured"
    assert found["step"]["bubble"] == pytest.approx(0.2, abs=0.001)
    assert found["diagnosis"]["words"] == str(diagnosis)
    assert found["diagnosis"]["shorter"]["name"] == "zero bubble"
    assert len(found["diagnosis"]["findings"]) == len(diagnosis.findings)
    (tmp_path / "mine.txt").write_text("F0 B0\nB0 F0\n")
    code, out, _ = run("open", str(tmp_path / "mine.txt"), "--json")
    found = json.loads(out)
    assert (code, found["step"], found["schedule"]["problems"][0]["op"]) == (1, None, "B0@1")


def test_files_are_named_in_any_order_and_replicas_chosen(run):
    files = sorted(map(str, (FILES / "kineto_cpu_2_replicas").iterdir()), reverse=True)
    code, out, _ = run("open", *files, "--replica", "1")
    assert code == 0
    assert "of ranks 1, 3, replica 1 of 2; ops by" in " ".join(out.split())
    code, _, told = run("open", *files, "--replica", "2")
    assert code == 2
    assert "replica is 2; the files have 2 replicas, from 0 to 1" in told


def test_a_page_of_its_own(run, tmp_path):
    pytest.importorskip("anywidget", reason="a page is the widget's")
    page = tmp_path / "step.html"
    code, out, _ = run("open", str(FILES / "kineto_gpu"), "--html", str(page))
    assert code == 0
    assert f"wrote {page}" in out.replace("\n", "")
    text = page.read_text(encoding="utf-8")
    assert "kineto_gpu: ops by GPU kernels" in text
    told = escape(str(ge.diagnose(ge.load(FILES / "kineto_gpu"))))
    assert f'<p class="ge-note">{told}</p>' in text
    assert "p.ge-note { white-space: pre-line; }" in text  # a list, line by line


def test_a_shorter_schedule_is_written_for_a_cluster(run, tmp_path):
    file = tmp_path / "shorter.csv"
    code, out, _ = run("open", str(FILES / "kineto_gpu"), "--csv", str(file))
    assert code == 0
    assert f"wrote {file}" in out.replace("\n", "")
    assert ge.load(file) == ge.zero_bubble(2, 4)
    assert "--csv zero_bubble.csv" in run("open", str(FILES / "kineto_gpu"))[1]
    order = tmp_path / "order.txt"
    order.write_text("F0 B0", encoding="utf-8")
    code, _, err = run("open", str(order), "--csv", str(tmp_path / "none.csv"))
    assert code == 2
    assert "--csv looks for a shorter schedule at measured costs, and 'order' is an order" in " ".join(err.split())
    best = traces.save_all(
        tmp_path / "best", ge.simulate(ge.zero_bubble(2, 4))
    )  # F, I and W apart: there is none shorter
    page = tmp_path / "none.html"
    code, _, err = run("open", *map(str, best), "--csv", str(tmp_path / "none.csv"), "--html", str(page))
    assert code == 2
    assert not page.exists(), "what is refused has written nothing"
    assert "no schedule would be shorter at these costs and in this memory" in " ".join(err.split())
    assert not (tmp_path / "none.csv").exists()


def test_an_order_of_ops_is_planned_or_said_why_it_cannot_run(run, tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text(str(ge.one_f_one_b(2, 4)))
    code, out, _ = run("open", str(file))
    assert code == 0
    assert "bubble 20.0%" in out
    file.write_text("B0 F0\n")
    code, out, _ = run("open", str(file))
    assert code == 1
    assert "B0" in out


def test_orders_of_others_are_opened_and_old_letters_said(run, tmp_path):
    file = tmp_path / "order.csv"
    file.write_text("0F0,0B0,0W0\n", encoding="utf-8")
    code, out, err = run("open", str(file))
    assert (code, err) == (0, "")
    assert "the letters of PyTorch before 2.6: its B is read as I" in " ".join(out.split())
    file.write_text("1 1 2 2 -2 -1 -2 -1\n1 1 2 2 -2 -1 -2 -1\n", encoding="utf-8")
    code, out, _ = run("open", str(file))
    assert code == 0
    assert "2 devices, 4 stages, 2 micro-batches" in out


def test_what_cannot_be_opened_is_one_message_without_a_traceback(run, tmp_path):
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "aten::mm", "ts": 1, "dur": 1}]}))
    code, _, told = run("open", str(file))
    assert code == 2
    assert told.startswith("error: one.json is a trace of 1 events")
    assert 'with record_function(f"PP:{stage}F{m}")' in told
    assert "Traceback" not in told
    code, _, told = run("open", str(tmp_path / "none.json"))
    assert code == 2
    assert "none.json" in told


def test_while_large_files_are_read_a_bar_says_how_far_it_is(tmp_path, monkeypatch):
    trace = tmp_path / "rank0.json"
    events = [{"ph": "X", "name": f"PP:0{kind}0", "ts": ts, "dur": 1, "pid": 1} for kind, ts in (("F", 1), ("B", 3))]
    trace.write_text(json.dumps({"traceEvents": events}))
    told = []
    open_files(trace, watch=told.append)
    assert told == [trace.stat().st_size] * len(told) != []
    with opening._reading([tmp_path]) as watch:
        assert watch is None, "there are few bytes, and no terminal"
    monkeypatch.setattr(opening, "_MANY", 0)
    screen = StringIO()
    monkeypatch.setattr(opening, "Console", lambda stderr: Console(file=screen, force_terminal=True, width=100))
    with opening._reading([tmp_path]) as watch:
        watch(trace.stat().st_size)
    assert "reading" in screen.getvalue()
