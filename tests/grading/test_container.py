"""Grading in a container: the command lines, what is told where there is none, and a class judged in a stand-in."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpipe_edu.exercises import all_exercises
from gpipe_edu.grading import container
from tests.processes import running

from .classroom import CLOCK, LOOP, answered, hand_in, notebook, run, solved, states
from .hostile import HOSTILE

BOOK = "exercise_02_clock.ipynb"


def program(folder, name, text):
    """A program on a PATH of its own; returns that PATH."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(stat.S_IRWXU)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def stand_in(tmp_path):
    """The environment in which `podman` is the stand-in, and the folder in which it keeps what it is told."""
    kept = tmp_path / "kept"
    kept.mkdir()
    text = f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stand_in.py")} "$@"\n'
    return {"PATH": program(tmp_path / "bin", "podman", text), "GPIPE_EDU_STAND_IN": str(kept)}, kept


def test_the_command_line_shuts_everything_and_mounts_nothing(stand_in, monkeypatch):
    environment, kept = stand_in
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    said = []
    command = container.workplace("podman", said.append).command
    tag = command[-1]
    assert command[:-1] == (
        *("podman", "run", "--rm", "--interactive", "--network=none", "--ipc=none", "--read-only"),
        *(f"--tmpfs={folder}:rw,mode=0755,size=1g" for folder in ("/tmp", "/var/tmp", "/run")),
        *(f"--tmpfs={folder}:ro,mode=0555,size=4k" for folder in ("/dev/mqueue", "/sys/fs/cgroup")),
        *("--sysctl=fs.mqueue.queues_max=0", "--sysctl=kernel.shmmni=0", "--sysctl=kernel.msgmni=0"),
        "--sysctl=kernel.sem=0 0 0 0",
        "--cap-drop=ALL",
        *(f"--cap-add={right}" for right in ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID")),
        *("--security-opt=no-new-privileges", "--pids-limit=512", "--memory=8g"),
    )
    assert "Building the image" in said[0]
    assert container.workplace("podman", said.append).command == command
    assert len(said) == 1  # it is there already
    commands = (kept / "commands").read_text().splitlines()
    python = f"PYTHON={sys.version_info.major}.{sys.version_info.minor}"
    assert commands[:2] == ["info", f"image inspect {tag}"]
    assert commands[2].startswith(f"build --tag {tag} --build-arg {python} --file ")
    assert commands[3:] == ["info", f"image inspect {tag}"]


def test_the_image_has_the_package_and_no_solution(stand_in, monkeypatch):
    environment, kept = stand_in
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    container.workplace("podman", print)
    assert {path.name for path in (kept / "context").iterdir()} == {"Containerfile", "requirements.txt", "gpipe_edu"}
    assert (kept / "context" / "gpipe_edu" / "exercises" / "said.toml").exists()
    pinned = (kept / "context" / "requirements.txt").read_text().split()
    assert all("==" in line for line in pinned)
    assert {"numpy", "torch", "cloudpickle"} <= {line.partition("==")[0] for line in pinned}
    recipe = (kept / "context" / "Containerfile").read_text()
    assert {line.split()[1] for line in recipe.splitlines() if line.startswith("COPY")} == {
        "requirements.txt",
        "gpipe_edu",
    }


@pytest.mark.parametrize(
    ("program_text", "told"),
    [
        ("#!/bin/sh\necho 'no machine is running' >&2; exit 125\n", "does not run: no machine is running"),
        ('#!/bin/sh\n[ "$1" = info ] || exit 1\n', "can't build the image"),
    ],
)
def test_an_engine_that_fails_is_one_sentence(tmp_path, monkeypatch, program_text, told):
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "podman", program_text))
    with pytest.raises(ValueError, match=told):
        container.workplace("podman", print)


def test_what_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="podman is not installed here; install it, or give --in docker"):
        container.workplace("podman", print)
    with pytest.raises(ValueError, match="must be podman or docker"):
        container.workplace("lxc", print)


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker on this machine")
def test_docker_without_a_daemon(monkeypatch, tmp_path):
    """The real client says why."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(ValueError, match=r"docker is installed, but does not run: .*[Cc]annot connect"):
        container.workplace("docker", print)


def _may_stand_in():
    if os.getuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return False
    tried = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--mount-proc", "true"]
    return subprocess.run(tried, capture_output=True).returncode == 0


HOLDS = "in a container of podman: files, other processes, the network, system calls that no answer needs."


def of_a_class(place, attacks):
    """Hand-ins: these attacks, a right answer, one with a wrong order, and one that was not written."""
    for name in attacks:
        hand_in(place / name / BOOK, answered({"ex02/clock": HOSTILE[name]}))
    hand_in(place / "right" / BOOK, answered({"ex02/clock": CLOCK}))
    hand_in(place / "loop" / BOOK, answered({"ex02/clock": LOOP}))
    hand_in(place / "unsolved" / BOOK, notebook("exercise_02_clock"))
    return place


def has_its_marks(out):
    found = {student: state for (student, task), state in states(out).items() if task == "ex02/clock"}
    found.pop("official", None)
    assert found.pop("right") == ("passed", "2")
    assert found.pop("unsolved") == ("unwritten", "0")
    assert {student: state for student, state in found.items() if state != ("wrong", "0")} == {}


@pytest.mark.skipif(not _may_stand_in(), reason="only root can stand in for podman, where namespaces are allowed")
def test_a_class_is_judged_in_a_stand_in(stand_in, tmp_path):
    environment, kept = stand_in
    names = ["reads the solution", "asks a classmate", "kills the judge", "calls home", "leaves something running"]
    names += ["reads the judge's memory", "disowns without end", "writes the answer itself", "stops itself"]
    place, temporary = of_a_class(tmp_path / "in", names), tmp_path / "temporary"
    temporary.mkdir()
    more = ("--tasks", "ex02/clock", "--jobs", "2", "--in", "podman")
    assert HOLDS in run(place, "--out", tmp_path / "out", *more, TMPDIR=str(temporary), **environment)
    has_its_marks(tmp_path / "out")
    assert running(temporary) == running(kept) == []
    assert "give one of them" in run(place, *more, "--trust", ends=2, **environment)


@pytest.mark.timeout(7200)
def test_a_class_is_judged_in_a_real_container(pytestconfig, tmp_path):
    """Every attack, and the solution of every task."""
    engine = pytestconfig.getoption("container")
    if not engine:
        pytest.skip("--container podman (or docker) builds a real image, which takes a network and minutes")
    place = of_a_class(tmp_path / "in", HOSTILE)
    for name in {one.notebook for one in all_exercises().values()}:
        hand_in(place / "official" / f"{name}.ipynb", solved(name))
    said = run(place, "--out", tmp_path / "out", "--jobs", "2", "--in", engine, seconds=7000)
    assert HOLDS.replace("podman", engine) in said
    has_its_marks(tmp_path / "out")
    official = {
        task: state for (student, task), (state, _) in states(tmp_path / "out").items() if student == "official"
    }
    assert official == dict.fromkeys(all_exercises(), "passed")
