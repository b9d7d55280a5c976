"""Grading in a container: the command lines, what is told where there is none, and a class judged in a stand-in."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from gpipe_edu.judge.exercise import all_exercises
from gpipe_edu.teaching.grading import container
from tests.processes import running

from .classroom import CLOCK, LOOP, answered, hand_in, notebook, run, solved, states
from .hostile import HOSTILE

pytestmark = pytest.mark.slow

BOOK = "exercise_02_clock.ipynb"


CONTEXT = {"Containerfile", "certificates.pem", "requirements.txt", "gpipe_edu"}


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
        "--tmpfs=/dev/mqueue:ro,mode=0555,size=4k",
        *("--sysctl=fs.mqueue.queues_max=0", "--sysctl=kernel.shmmni=0", "--sysctl=kernel.msgmni=0"),
        "--sysctl=kernel.sem=0 0 0 0",
        "--cap-drop=ALL",
        *(f"--cap-add={right}" for right in ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID", "SYS_PTRACE")),
        *("--security-opt=no-new-privileges", "--pids-limit=512", f"--memory={8 * 2**30}"),
        "--tmpfs=/sys/fs/cgroup:ro,mode=0555,size=4k",
    )
    assert "Building the image" in said[0]
    assert container.workplace("podman", said.append).command == command
    assert len(said) == 1  # it is there already
    commands = (kept / "commands").read_text().splitlines()
    python = f"PYTHON={sys.version_info.major}.{sys.version_info.minor}"
    assert commands[:2] == ["info", f"image inspect {tag}"]
    assert commands[2].startswith(f"build --tag {tag} --build-arg {python} --file ")
    tried, info, inspected, tried_again = commands[3:]
    assert tried.startswith(f"run --rm --network=none {' '.join(command[5:-2])} --entrypoint python {tag} -c ")
    assert (info, inspected, tried_again) == ("info", f"image inspect {tag}", tried)


def test_the_image_has_the_package_and_no_solution(stand_in, monkeypatch):
    environment, kept = stand_in
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    container.workplace("podman", print)
    assert {path.name for path in (kept / "context").iterdir()} == CONTEXT
    assert (kept / "context" / "gpipe_edu" / "judge" / "messages.toml").exists()
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
        (
            '#!/bin/sh\n[ "$1" = info ] || { echo Step 2/9; echo "no such host" >&2; exit 1; }\n',
            "^podman can't build the image: no such host. Building takes a network, once$",
        ),
        (
            '#!/bin/sh\n[ "$1" = info ] || { echo "SSLError(CERTIFICATE_VERIFY_FAILED)"; echo done; exit 1; }\n',
            "^podman can't build the image: done. The network here has a certificate of its own: give the same command "
            "with SSL_CERT_FILE=FILE before it, a file of all certificates that are to be trusted, and the image gets "
            "them$",
        ),
        (
            '#!/bin/sh\n[ "$1" != run ] || { echo "Error: runc: exec failed: no memory" >&2; exit 126; }\n',
            "^podman can't start a container: Error: runc: exec failed: no memory.$",
        ),
    ],
)
def test_an_engine_that_fails_is_one_sentence(tmp_path, monkeypatch, program_text, told):
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "podman", program_text))
    with pytest.raises(ValueError, match=told):
        container.workplace("podman", print)


def test_what_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for engine, other in (("podman", "docker"), ("docker", "podman")):
        with pytest.raises(ValueError, match=f"^{engine} is not installed here, nor is {other}: install one of them$"):
            container.workplace(engine, print)
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "docker", "#!/bin/sh\n").partition(os.pathsep)[0])
    with pytest.raises(ValueError, match=r"^podman is not installed here: give --in docker, which is$"):
        container.workplace("podman", print)
    with pytest.raises(ValueError, match="must be podman or docker"):
        container.workplace("lxc", print)


@pytest.mark.skipif(shutil.which("docker") is None, reason="there is no docker on this machine")
def test_docker_without_a_daemon(monkeypatch, tmp_path):
    """The real client says why."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(ValueError, match=r"docker is installed, but does not run: .*[Cc]annot connect"):
        container.workplace("docker", print)


@pytest.mark.parametrize(
    ("limits", "open_ones"),
    [
        ("max\nmax", "memory and processes"),
        ("9223372036854771712\nmax", "memory and processes"),
        ("8589934592\nmax", "processes"),
        ("1\n513", "processes"),
    ],
)
def test_limits_that_are_not_held_are_a_refusal(stand_in, monkeypatch, limits, open_ones):
    for name, value in {**stand_in[0], "GPIPE_EDU_STAND_IN_LIMITS": limits}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=open_ones) as caught:
        container.workplace("podman", print)
    assert str(caught.value) == (
        f"podman does not limit the {open_ones} of a container here, so an answer could stop this machine. Where users "
        "have no cgroups of their own, as with version 1, only root's containers are limited: give the same command as "
        "root, or on a system with cgroups version 2"
    )


def test_what_is_mistyped_is_told_before_an_image_is_built(stand_in, tmp_path):
    environment, kept = stand_in
    (tmp_path / "roster.csv").write_text("nothing\n1\n")
    hand_in(tmp_path / "in" / "ada" / BOOK, notebook("exercise_02_clock"))
    for line in (
        (tmp_path / "inn",),
        (tmp_path / "inn", "--one"),
        (tmp_path / "in", "--roster", tmp_path / "roster.csv"),
    ):
        run(*line, "--out", tmp_path / "out", "--in", "podman", ends=2, **environment)
    assert not (kept / "commands").exists()


def test_certificates_of_the_network_are_in_the_image_and_change_nothing_else(stand_in, monkeypatch, tmp_path):
    environment, kept = stand_in
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "own.pem").write_text("mine")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "own.pem"))
    with_them = container.workplace("podman", print).command
    assert (kept / "context" / "certificates.pem").read_text() == "mine"
    monkeypatch.delenv("SSL_CERT_FILE")
    assert container.workplace("podman", print).command == with_them, "once it is built they are not asked for"


def test_certificates_that_cannot_be_read_are_told(stand_in, monkeypatch, tmp_path):
    for name, value in {**stand_in[0], "SSL_CERT_FILE": f"{tmp_path}/nothing.pem"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        ValueError, match=r"^SSL_CERT_FILE is '.*nothing.pem', which can't be read: No such file or dir"
    ):
        container.workplace("podman", print)


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
    names += ["stalls in the middle of a fork"]
    names += ["leaves a solution above folders too deep to delete", "runs what somebody has left"]
    place, temporary = of_a_class(tmp_path / "in", names), tmp_path / "temporary"
    temporary.mkdir()
    more = ("--tasks", "ex02/clock", "--jobs", "2", "--in", "podman")
    assert HOLDS in run(place, "--out", tmp_path / "out", *more, TMPDIR=str(temporary), **environment)
    has_its_marks(tmp_path / "out")
    students = [line for line in (kept / "commands").read_text().splitlines() if line.startswith("run --rm --inter")]
    # One to look around, one for each student with an answer, and one for each who was disturbed and is judged again.
    assert len(students) >= 1 + len(names) + len(["right", "loop"])
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
