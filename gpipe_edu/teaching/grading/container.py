"""Workers in a container, for systems that can't confine answers: macOS, and Linux without bubblewrap.

The container holds nothing of the teacher's, neither hand-ins nor marks: answers go in through a pipe, reports come
out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

import gpipe_edu
from gpipe_edu.judge.pool import Workplace
from gpipe_edu.process.enclosure import CONTAINER

ENGINES: Final = ("podman", "docker")

_RIGHTS: Final = ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID", "SYS_PTRACE")
"""The capabilities that the worker needs: to run an answer as another user, kill it, and see what it waits for. The
answer has none.
"""

_MEMORY: Final = 8 * 2**30
_PROCESSES: Final = 512

_SHUT: Final = (
    "--network=none",
    "--ipc=none",
    "--read-only",
    *(f"--tmpfs={folder}:rw,mode=0755,size=1g" for folder in ("/tmp", "/var/tmp", "/run")),
    "--tmpfs=/dev/mqueue:ro,mode=0555,size=4k",
    "--sysctl=fs.mqueue.queues_max=0",
    "--sysctl=kernel.shmmni=0",
    "--sysctl=kernel.msgmni=0",
    "--sysctl=kernel.sem=0 0 0 0",
    "--cap-drop=ALL",
    *(f"--cap-add={right}" for right in _RIGHTS),
    "--security-opt=no-new-privileges",
    f"--pids-limit={_PROCESSES}",
    f"--memory={_MEMORY}",
)
"""Without the folders, queues and shared memory in which one answer could leave something for another."""

_HIDDEN: Final = ("--tmpfs=/sys/fs/cgroup:ro,mode=0555,size=4k",)
"""Where a container can see how its own processes are limited."""

_LIMITS: Final = """
from pathlib import Path
for names in (("memory.max", "memory/memory.limit_in_bytes"), ("pids.max", "pids/pids.max")):
    found = [path.read_text().strip() for path in map(Path("/sys/fs/cgroup").joinpath, names) if path.exists()]
    print(*found or ["max"])
"""

_UNKNOWN_CERTIFICATE: Final = re.compile(r"certificate.verify.failed|x509: certificate", re.IGNORECASE)
"""What pip and the engines say in a network that presents a certificate of its own."""

_ASKED: Final = 60
_BUILT: Final = 3600
"""Seconds for a request to the engine, and for building an image."""


def workplace(engine: str, tell: Callable[[str], None]) -> Workplace:
    """A container; its image is built if it does not exist.

    Raises ValueError where there is no such engine, or it does not run, can't build, or does not keep to the limits.
    """
    if engine not in ENGINES:
        raise ValueError(f"--in is {engine!r}; it must be {' or '.join(ENGINES)}")
    if shutil.which(engine) is None:
        other = next(one for one in ENGINES if one != engine)
        instead = f": give --in {other}, which is" if shutil.which(other) else f", nor is {other}: install one of them"
        raise ValueError(f"{engine} is not installed here{instead}")
    info = _ask(engine, "info")
    if info.returncode:
        raise ValueError(
            f"{engine} is installed, but does not run: {_last_line(info.stderr)} "
            "Start it, and give the same command again"
        )
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_image_") as name:
        context = Path(name)
        _lay_out(context)
        tag = f"gpipe_edu-grade:{_digest(context)}"
        if _ask(engine, "image", "inspect", tag).returncode:
            tell(f"Building the image {tag} with {engine}, once for this version of the course; minutes ...")
            _build(engine, tag, context)
    _try_out(engine, tag)
    command = (engine, "run", "--rm", "--interactive", *_SHUT, *_HIDDEN, tag)
    return Workplace(CONTAINER, command, f"in a container of {engine}")


def requirements() -> list[str]:
    """The libraries that a judge needs, in the versions installed here. Raises ValueError if ours is not installed."""
    try:
        wanted = [Requirement(text) for text in metadata.requires("gpipe_edu") or ()]
    except metadata.PackageNotFoundError:
        raise ValueError("gpipe_edu is not installed here, so what it needs is not known; pip install it") from None
    needed = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": "torch"})]
    return [f"{one.name}=={Version(metadata.version(one.name)).public}" for one in needed]


def _lay_out(context: Path) -> None:
    """Write what the image is built from."""
    package = Path(gpipe_edu.__file__).parent
    shutil.copytree(package, context / "gpipe_edu", ignore=shutil.ignore_patterns("__pycache__"))
    (context / "requirements.txt").write_text("\n".join([*requirements(), ""]), encoding="utf-8")
    recipe = (files(__package__) / "Containerfile").read_text(encoding="utf-8")
    (context / "Containerfile").write_text(recipe, encoding="utf-8")


def _build(engine: str, tag: str, context: Path) -> None:
    python = f"PYTHON={sys.version_info.major}.{sys.version_info.minor}"
    recipe = str(context / "Containerfile")
    command = [engine, "build", "--tag", tag, "--build-arg", python, "--file", recipe, str(context)]
    known = os.environ.get("SSL_CERT_FILE")
    try:
        (context / "certificates.pem").write_bytes(Path(known).read_bytes() if known else b"")
    except OSError as error:
        raise ValueError(
            f"SSL_CERT_FILE is {known!r}, which can't be read: {error.strerror}; give a file of certificates, or none"
        ) from None
    said: deque[str] = deque(maxlen=100)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        end = threading.Timer(_BUILT, process.kill)
        end.start()
        try:
            for line in process.stdout or ():
                sys.stderr.write(line)
                said.append(line)
            late = not end.is_alive()
        finally:  # after Ctrl-C, too: nothing waits out its hour
            end.cancel()
    if late:
        raise ValueError(f"{engine} has not built the image in {_BUILT // 60} minutes; is there a network?")
    if process.returncode:
        why = f"{engine} can't build the image: {_last_line(''.join(said))}"
        if _UNKNOWN_CERTIFICATE.search("".join(said)):
            raise ValueError(
                f"{why} The network here has a certificate of its own: give the same command with SSL_CERT_FILE=FILE "
                "before it, a file of all certificates that are to be trusted, and the image gets them"
            )
        raise ValueError(f"{why} Building takes a network, once")


def _try_out(engine: str, tag: str) -> None:
    """Start a container. Raises ValueError where that fails, or where it lacks the limits that were asked for."""
    tried = _ask(engine, "run", "--rm", *_SHUT, "--entrypoint", "python", tag, "-c", _LIMITS)
    if tried.returncode:
        raise ValueError(f"{engine} can't start a container: {_last_line(tried.stderr)}")
    limits = zip(("memory", "processes"), (_MEMORY, _PROCESSES), tried.stdout.split(), strict=True)
    open_ones = [what for what, most, found in limits if not found.isdigit() or int(found) > most]
    if open_ones:
        raise ValueError(
            f"{engine} does not limit the {' and '.join(open_ones)} of a container here, so an answer could stop this "
            "machine. Where users have no cgroups of their own, as with version 1, only root's containers are limited: "
            "give the same command as root, or on a system with cgroups version 2"
        )


def _ask(engine: str, *question: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run([engine, *question], capture_output=True, text=True, timeout=_ASKED)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([], 1, "", f"it gave no answer in {_ASKED} seconds.")


def _digest(context: Path) -> str:
    """Identifies an image: different contents, different digest."""
    digest = hashlib.sha256(repr(sys.version_info[:2]).encode())
    for name in _names(context):
        digest.update(name.encode() + b"\0" + (context / name).read_bytes())
    return digest.hexdigest()[:12]


def _names(context: Path) -> Iterator[str]:
    yield from sorted(path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file())


def _last_line(text: str) -> str:
    """The last line that a program printed, with a full stop."""
    last = (text.strip().splitlines() or ["it does not say why"])[-1].strip()
    return last if last.endswith(".") else f"{last}."
