"""The command line as a person meets it: what it prints, what it writes, how it refuses."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import gpipe_edu as ge
from gpipe_edu.cli import _MEANT
from tests.each import each
from tests.processes import PATIENCE

pytestmark = pytest.mark.slow


def test_train_learns_and_shows_what_happened(run):
    code, out, _ = run("train", "--partitions", "3", "--micro-batches", "5", "--epochs", "4", "--schedule", "1f1b")
    assert code == 0
    accuracies = [float(share) for share in re.findall(r"test accuracy ([\d.]+)%", out)]
    assert len(accuracies) == 4
    assert accuracies[-1] > 85
    assert "28.6% of all device time is idle" in out  # (K-1)/(M+K-1) = 2/7
    assert float(re.search(r"differ from one-device training by (\S+)", out)[1]) < 1e-12
    assert all(f"device {device}" in out for device in range(3))


def test_train_on_pytorch_measures_what_it_says(run):
    pytest.importorskip("torch", reason="the PyTorch engine needs torch")
    code, out, _ = run(
        "train", "--engine", "torch", "--partitions", "2", "--layers", "4", "--epochs", "4", "--checkpoint", "always"
    )
    assert code == 0
    assert float(re.findall(r"test accuracy ([\d.]+)%", out)[-1]) > 85
    assert float(re.search(r"differ from one-device training by (\S+)", out)[1]) < 1e-10
    for row in (
        "samples/s",
        "times as fast",
        "bubble, planned",
        "bubble, measured",
        "as scheduled",
        "never recomputed",
    ):
        assert row in out


def test_train_writes_trace_and_pictures(run, tmp_path):
    for picture in ("step.svg", "step.png"):
        code, out, _ = run(
            "train", "--epochs", "1", "--trace", str(tmp_path / "t.json"), "--figure", str(tmp_path / picture)
        )
        assert code == 0
        assert f"wrote {tmp_path / picture}" in out.replace("\n", "")
    trace = json.loads((tmp_path / "t.json").read_text())
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == 2 * 4 * 8
    assert ElementTree.parse(tmp_path / "step.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")


def test_forty_layers_on_a_schedule_of_ones_own(run, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("F0 F1 B0 B1\nF0 B0 F1 B1  # the last stage goes back at once\n")
    code, out, _ = run("train", "--layers", "40", "--epochs", "1", "--schedule", str(path))
    assert code == 0
    assert "79 layers on 2 devices" in out


def test_schedule_draws_the_plan_and_prints_the_written_form(run):
    code, out, _ = run("schedule", "gpipe", "--partitions", "4", "--micro-batches", "8")
    assert code == 0
    assert "33" in out
    assert "27.3%" in out
    code, out, _ = run("schedule", "1f1b", "--partitions", "2", "--micro-batches", "2", "--text")
    assert (code, out) == (0, "F0 F1 B0 B1\nF0 B0 F1 B1\n")


def test_schedule_names_what_is_wrong_with_a_written_one_and_exits_with_1(run, tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("F0 B0\nB0 F0\n")
    code, out, _ = run("schedule", str(path))
    assert code == 1
    assert out.startswith("device 1 runs B0@1 before F0@1")
    assert "device 1  || [B0?] [F0?]\nB0@1 --needs--> F0@1" in out


def test_schedule_answers_other_programs(run, tmp_path):
    code, out, _ = run("schedule", "1f1b", "--partitions", "2", "--micro-batches", "2", "--json")
    found, plan = json.loads(out), ge.simulate(ge.one_f_one_b(2, 2))
    assert (code, found["rows"], found["problems"]) == (0, ["F0 F1 B0 B1", "F0 B0 F1 B1"], [])
    assert (found["step"]["source"], found["step"]["makespan"]) == ("planned", plan.makespan)
    assert found["step"]["bubble"] == pytest.approx(plan.bubble_fraction)
    (tmp_path / "mine.txt").write_text("F0 B0\nB0 F0\n")
    code, out, _ = run("schedule", str(tmp_path / "mine.txt"), "--json")
    found = json.loads(out)
    assert (code, found["step"], found["problems"][0]["op"]) == (1, None, "B0@1")
    assert found["problems"][0]["message"].startswith("device 1 runs B0@1 before F0@1")


def test_environment_finds_the_course_ready_here(run):
    code, out, _ = run("environment")
    assert code == 0
    assert "Ready: the course runs here." in out


def test_environment_exits_with_1_where_something_is_missing(run, monkeypatch):
    monkeypatch.setattr("gpipe_edu.course.environment._find_version", lambda name: "" if name == "jupyterlab" else "99")
    code, out, _ = run("environment")
    assert code == 1
    assert "Missing: jupyterlab >= 4.2." in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "--partitions", "0"], "--partitions"),
        (["train", "--partitions", "four"], "--partitions"),
        (["train", "--partitions", "40"], "15 layers cannot fill 40 stages"),
        (["train", "--schedule", "gpip"], "schedule is 'gpip'.*naive, gpipe"),
        (["train", "--learning-rate", "0"], "learning_rate is 0"),
        (["train", "--figure", "step.pdf"], "must end in .svg or .png"),
        (["train", "--trace", "no/such/folder/t.json"], "folder of 'no/such/folder/t.json' does not exist"),
        (["train", "--engine", "jax"], "engine is 'jax'.*numpy, torch"),
        (["train", "--checkpoint", "sometimes"], "checkpoint is 'sometimes'.*always, except_last, never"),
        (["train", "--schedule", "gpipe-late", "--checkpoint", "always"], "by R or C ops"),
        (["train", "--device", "cuda"], "device is 'cuda'; the NumPy engine runs on the CPU only"),
        (["schedule", "gpipe", "--forward", "-1"], "Costs F is -1.0; it must be finite and at least 0"),
        (["schedule", "gpipe", "--figure", "."], "must end in .svg or .png"),
        (["schedule", "gpipe", "--trace", "."], r"'.' cannot be written \(Is a directory\); name another file"),
        (["schedule"], "Missing argument .*"),
        (["lab", "foo"], "lab takes no 'foo'; the folder of the copy is named by --folder foo"),
        (["lab", "--port", "70000"], "'--port': Input should be less than or equal to 65535"),
        (["lab", "--port", "-1"], "'--port': Input should be greater than or equal to 0"),
        (["copy", "--folder", "setup.py"], "setup.py is a file; --folder names the folder for the copy"),
        (["trian"], "trian"),
    ],
)
def test_bad_arguments_are_one_sentence_and_exit_code_2(run, arguments, says):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert re.fullmatch(rf"error: .*{says}.*\n", err)


@pytest.mark.parametrize("schedule", ["gpipe", "dual_pipe_v"])
def test_more_stages_than_layers_are_refused_before_a_schedule_is_built(run, monkeypatch, schedule):
    monkeypatch.setattr("gpipe_edu.cli.schedule.by_name", lambda *_: pytest.fail("a schedule was built"))
    code, _, err = run("train", "--layers", "4", "--schedule", schedule, "--partitions", "100000")
    assert code == 2
    stages = {"gpipe": 100_000, "dual_pipe_v": 200_000}[schedule]
    assert f"7 layers cannot fill {stages} stages, because every stage needs at least one layer; use K <= 7" in err


def test_a_png_without_matplotlib_is_refused_before_any_training(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run("train", "--figure", str(tmp_path / "step.png"))
    assert (code, out) == (2, "")
    assert re.fullmatch(
        r"error: a \.png \(a \.svg needs nothing\) needs matplotlib: \S*python\S* -m pip install "
        r'"gpipe_edu\[notebooks\]"\n',
        err,
    )


def test_the_python_that_has_to_be_given_more_is_the_one_that_runs(run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ("schedule", "gpipe", "--figure", str(tmp_path / "step.png"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert 'matplotlib: python -m pip install "' in run(*arguments)[2]
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f'matplotlib: {sys.executable} -m pip install "' in run(*arguments)[2]


def test_without_a_home_lab_says_what_jupyter_needs_and_copies_nothing(run, monkeypatch, tmp_path):
    pytest.importorskip("jupyterlab", reason="this test needs jupyterlab: pip install -r requirements.txt")
    (tmp_path / "file").touch()
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "file" / "config"))
    code, out, err = run("lab", "--folder", str(tmp_path / "copy"))
    assert (code, out) == (2, "")
    folder = tmp_path / "file" / "config"
    assert err == f"error: Jupyter cannot write to {folder}; set HOME to a folder that you can write to\n"
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("started", "said"),
    [
        ("/home/me/.venv/bin/gpipe-edu", "gpipe-edu"),
        ("gpipe-edu.exe", "gpipe-edu"),
        ("__main__.py", "python -m gpipe_edu"),
    ],
)
def test_commands_are_named_as_the_program_was_started(run, monkeypatch, tmp_path, started, said):
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.chdir(tmp_path)
    assert run("--help")[1].split("Usage: ")[1].startswith(f"{said} [OPTIONS]")
    assert run("script", "ex01")[1] == f"exercise_01_splitting.py is written. Beside it: {said} watch ex01\n"


def test_files_that_are_no_schedule_are_refused_in_a_sentence(run, tmp_path):
    for name, content, says in (
        ("words.txt", b"hello world", 'line 1: cannot read "hello"'),
        ("empty.txt", b"", "no ops"),
        ("picture.png", b"\x89PNG\xff\xfe", "no text file"),
    ):
        (tmp_path / name).write_bytes(content)
        code, _, err = run("train", "--schedule", str(tmp_path / name))
        assert code == 2
        assert says in err
        assert err.count("\n") == 1


def test_schedule_takes_pytorchs_csv_and_writes_it(run, tmp_path):
    files = Path(__file__).parents[1] / "schedule" / "files"
    written = tmp_path / "mine.csv"
    code, out, err = run("schedule", str(files / "letters_old.csv"), "--text")
    assert (code, out) == (0, "F0 F1 I0 W0 I1 W1\nF0 I0 F1 I1 W0 W1\n")
    assert "note: The file has the letters of PyTorch before 2.6" in err
    code, out, err = run("schedule", str(files / "overlap.csv"), "--csv", str(written))
    assert (code, err) == (0, "")
    assert f"wrote {written}" in out
    assert f"--parallelism.pipeline_parallel_schedule_csv {written}" in out
    assert written.read_text() == ge.dual_pipe_v(2, 4).to_csv()
    code, _, err = run("schedule", str(files / "off_by_one.csv"))
    assert code == 2
    assert "so PyTorch 2.13 prints its own Schedule1F1B" in err


def test_schedule_takes_orders_of_others(run, tmp_path):
    (tmp_path / "order.txt").write_text("1 1 -1 -1\n1 -1 1 -1\n")
    assert run("schedule", str(tmp_path / "order.txt"), "--text")[1] == "F0 F1 B0 B1\nF0 B0 F1 B1\n"


def test_what_has_no_csv_is_refused_and_none_is_written(run, tmp_path):
    for arguments, says in (
        (("gpipe-early", "--csv", str(tmp_path / "no.csv")), "no letter for a recompute"),
        (("gpipe", "--csv", str(tmp_path / "no" / "no.csv")), "does not exist; create it first"),
    ):
        code, _, err = run("schedule", *arguments)
        assert code == 2
        assert says in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [[], ["-OO"]])
def test_python_m_runs_it_in_a_process_of_its_own(options):
    done = subprocess.run(
        [sys.executable, *options, "-m", "gpipe_edu", "schedule", "naive", "--partitions", "2", "--micro-batches", "1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "50.0%" in done.stdout


@each("theirs, ours", _MEANT.items())
def test_what_other_tools_call_an_option_is_told_with_our_name(run, theirs, ours):
    command, other = ("train", "plan") if ours == "--partitions" else ("plan", "schedule")
    assert run(command, theirs, "8") == (2, "", f"error: No such option: {theirs}; here it is {ours}\n")
    code, _, err = run(other, theirs, "8")  # a command that has none such
    assert code == 2
    assert "here it is" not in err
