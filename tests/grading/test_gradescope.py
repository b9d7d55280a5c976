"""Gradescope's autograder as its container runs it, in a folder of its own: what comes out, and who reaches it."""

import json
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import pytest

from gpipe_edu.process.probes import Confinement
from gpipe_edu.teaching.platforms import gradescope_run
from tests.processes import PATIENCE, ROOT

from .classroom import CLOCK, SEVEN, answered, code, for_all, hand_in, needs_sandbox, notebook, solved

pytestmark = pytest.mark.slow

CLOCK_BOOK, STAGES_BOOK = "exercise_02_clock", "exercise_04_rematerialization"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("zip") / "autograder.zip"
    command = [sys.executable, "-m", "gpipe_edu", "gradescope", str(path), "--tasks", "02,ex04/stage"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ROOT})
    assert "ex02/clock, ex02/f-then-b, ex04/stage; 9 points" in done.stdout
    return path


def container(place, archive, python=sys.executable):
    """A folder as Gradescope's /autograder, in which setup.sh has been run."""
    (place / "submission").mkdir(parents=True)
    with zipfile.ZipFile(archive) as files:
        for member in files.infolist():
            path = Path(files.extract(member, place / "source"))
            path.chmod(member.external_attr >> 16)
    subprocess.run([python, "-m", "venv", "--without-pip", str(place / "source" / "venv")], check=True)
    packages = next((place / "source" / "venv").glob("lib/*/site-packages"))
    (packages / "behind.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return place


def run(place, ends=0):
    """What run_autograder leaves as results, by task; and what it says."""
    done = subprocess.run(
        [str(place / "source" / "run_autograder")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd="/",
        env={**os.environ, "AUTOGRADER": str(place)},
    )
    said = done.stdout + done.stderr
    assert done.returncode == ends, said
    results = place / "results" / "results.json"
    data = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {"tests": []}
    return {test["name"].partition(":")[0]: test for test in data["tests"]}, said


def scores(results):
    return {key: (test["score"], test["max_score"], test["status"]) for key, test in results.items()}


def test_an_archive_has_what_gradescope_starts_and_no_solutions(archive, tmp_path):
    with zipfile.ZipFile(archive) as files:
        names = files.namelist()
        files.extractall(tmp_path)
        modes = {name: stat.S_IMODE(files.getinfo(name).external_attr >> 16) for name in ("setup.sh", "run_autograder")}
    assert modes == {"setup.sh": 0o755, "run_autograder": 0o755}
    assert not [name for name in names if name.startswith(("solutions", "tests", "exercises", "."))]
    for name in modes:
        subprocess.run(["bash", "-n", str(tmp_path / name)], check=True)
    wanted = {line.partition("==")[0] for line in (tmp_path / "requirements.txt").read_text().split()}
    assert {"numpy", "torch", "cloudpickle"} <= wanted
    assert "jupyterlab" not in wanted


@needs_sandbox
def test_each_hand_in_gets_its_results(archive, tmp_path):
    place = container(tmp_path / "autograder", archive)
    half = solved(STAGES_BOOK)
    cell = next(c for c in half["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "ex04-stage-answer")
    cell["source"] = cell["source"].replace("self.kept.pop(m)", "self.kept[m]")
    hand_in(place / "submission" / f"{STAGES_BOOK}.ipynb", half)
    hand_in(place / "submission" / "mine" / f"{CLOCK_BOOK} (1).ipynb", answered({"ex02/clock": CLOCK}))
    results, said = run(place)
    assert "Answers run in a sandbox." in said
    assert scores(results) == {
        "ex02/clock": (2, 2, "passed"),
        "ex02/f-then-b": (0, 3, "failed"),
        "ex04/stage": (3, 4, "failed"),
    }
    assert {test["visibility"] for test in results.values()} == {"visible"}
    assert "still the stub" in results["ex02/f-then-b"]["output"]
    shutil.rmtree(place / "submission")
    cheat = answered({"ex02/clock": SEVEN, "ex02/f-then-b": "def f_then_b(K, M:\n    return 7"})
    cheat["cells"].insert(0, code(f"open({str(place / 'RAN')!r}, 'w')"))
    hand_in(place / "submission" / f"{CLOCK_BOOK}.ipynb", cheat)
    results, _ = run(place)
    assert {test["score"] for test in results.values()} == {0}
    assert "this is an int" in results["ex02/clock"]["output"]
    assert results["ex02/f-then-b"]["output"].startswith("broken\n")
    assert results["ex04/stage"]["output"].startswith("missing\n")
    assert not (place / "RAN").exists()
    shutil.rmtree(place / "submission")
    half_a_pair = 'def f_then_b(K, M):\n    raise ValueError("\\ud800")'
    mac = answered({"ex02/clock": CLOCK.replace("\n", "\r"), "ex02/f-then-b": half_a_pair})
    hand_in(place / "submission" / f"{CLOCK_BOOK}.ipynb", mac)
    os.mkfifo(place / "submission" / f"{STAGES_BOOK}.ipynb")
    results, _ = run(place)
    assert [test["score"] for test in results.values()] == [2, 0, 0]
    assert "is no regular file" in results["ex04/stage"]["output"]
    assert r"ValueError: \ud800" in results["ex02/f-then-b"]["output"]
    hand_in(place / "submission" / f"{CLOCK_BOOK}.ipynb", notebook(CLOCK_BOOK))
    results, _ = run(place)
    assert results["ex02/clock"]["output"] == "unwritten\nThe function is still the stub."


@pytest.fixture
def without_a_sandbox(archive, monkeypatch):
    """Such a container in which bubblewrap may make no namespace; root and nobody are as in Gradescope's."""
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can run answers as nobody")
    python = for_all()
    if python is None:
        pytest.skip("no Python of this version here is there for all users")
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_gradescope_") as folder:
        os.chmod(folder, 0o755)
        place = container(Path(folder) / "autograder", archive, python)
        program = Path(folder) / "bin" / "bwrap"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        yield place


def test_without_a_sandbox_an_answer_is_nobody_and_reaches_neither_judge_nor_marks(without_a_sandbox):
    place = without_a_sandbox
    tries = {
        "marks": f"open({str(place / 'results' / 'results.json')!r}, 'w')",
        "order": f"open({str(place / 'source' / 'order.json')!r}, 'w')",
        "package": f"open({str(place / 'source' / 'gpipe_edu' / '__init__.py')!r}, 'a')",
        "kill": "os.kill(os.getppid(), 9)",
        "memory": "open(f'/proc/{os.getppid()}/mem', 'r+b')",
        "pipe": "open(f'/proc/{os.getppid()}/fd/1', 'w')",
        "root": "os.setuid(0)",
    }
    lines = [
        f"    try:\n        {text}\n        told.append({name!r})\n    except OSError:\n        pass"
        for name, text in tries.items()
    ]
    hostile = "\n".join(["def clock(K, M):", "    import os", "    told = ['reached', str(os.getuid())]", *lines])
    hostile += "\n    raise RuntimeError(' '.join(told))"
    hand_in(place / "submission" / f"{CLOCK_BOOK}.ipynb", answered({"ex02/clock": hostile}))
    hand_in(place / "submission" / f"{STAGES_BOOK}.ipynb", solved(STAGES_BOOK))
    results, said = run(place)
    assert "Answers run as the user nobody" in said
    assert "RuntimeError: reached 65534\n" in results["ex02/clock"]["output"]
    assert scores(results)["ex02/clock"] == (0, 2, "failed")
    assert scores(results)["ex04/stage"] == (4, 4, "passed")


def test_where_nothing_protects_the_marks_nothing_is_judged(archive, tmp_path, monkeypatch):

    place = container(tmp_path / "autograder", archive)
    hand_in(place / "submission" / f"{CLOCK_BOOK}.ipynb", answered({"ex02/clock": CLOCK}))
    monkeypatch.setattr(gradescope_run.Judges, "probe", lambda self: Confinement())
    with pytest.raises(ValueError, match="would not be confined"):
        gradescope_run.run(place)
    assert not (place / "results" / "results.json").exists()


def test_without_what_was_handed_in_it_says_which_folder_is_missing(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "order.json").write_text("{}")
    with pytest.raises(ValueError, match=r"there is no folder .*submission"):
        gradescope_run.run(tmp_path)
