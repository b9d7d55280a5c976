"""Workers in a container, for systems that can't confine answers: macOS, and Linux without bubblewrap.

The container holds nothing of the teacher's, neither hand-ins nor marks: answers go in through a pipe, reports come
out.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

import gpipe_edu
from gpipe_edu.process.enclosure import CONTAINER

from .judges import Workplace

ENGINES: Final = ("podman", "docker")

_RIGHTS: Final = ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID")
"""The capabilities that the worker needs to run an answer as another user and to kill it. The answer has none."""

_SHUT: Final = (
    "--network=none",
    "--ipc=none",
    "--read-only",
    *(f"--tmpfs={folder}:rw,mode=0755,size=1g" for folder in ("/tmp", "/var/tmp", "/run")),
    *(f"--tmpfs={folder}:ro,mode=0555,size=4k" for folder in ("/dev/mqueue", "/sys/fs/cgroup")),
    "--sysctl=fs.mqueue.queues_max=0",
    "--sysctl=kernel.shmmni=0",
    "--sysctl=kernel.msgmni=0",
    "--sysctl=kernel.sem=0 0 0 0",
    "--cap-drop=ALL",
    *(f"--cap-add={right}" for right in _RIGHTS),
    "--security-opt=no-new-privileges",
    "--pids-limit=512",
    "--memory=8g",
)
"""Without the folders, queues and shared memory in which an answer could leave something for a classmate's."""

_ASKED: Final = 60
_BUILT: Final = 3600
"""Seconds for a request to the engine, and for building an image."""


def workplace(engine: str, tell: Callable[[str], None]) -> Workplace:
    """A container; its image is built if it does not exist.

    Raises ValueError where there is no such engine, it does not run, or it can't build.
    """
    if engine not in ENGINES:
        raise ValueError(f"--in is {engine!r}; it must be {' or '.join(ENGINES)}")
    if shutil.which(engine) is None:
        raise ValueError(f"{engine} is not installed here; install it, or give --in {_other(engine)}")
    info = _ask(engine, "info")
    if info.returncode:
        why = (info.stderr.strip().splitlines() or ["it does not say why"])[-1]
        raise ValueError(f"{engine} is installed, but does not run: {why} Start it, and give the same command again")
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_image_") as name:
        context = Path(name)
        _lay_out(context)
        tag = f"gpipe_edu-grade:{_digest(context)}"
        if _ask(engine, "image", "inspect", tag).returncode:
            tell(f"Building the image {tag} with {engine}, once for this version of the course; minutes ...")
            _build(engine, tag, context)
    command = (engine, "run", "--rm", "--interactive", *_SHUT, tag)
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
    try:
        status = subprocess.run(command, stdout=sys.stderr, timeout=_BUILT).returncode
    except subprocess.TimeoutExpired:
        raise ValueError(f"{engine} has not built the image in {_BUILT // 60} minutes; is there a network?") from None
    if status:
        raise ValueError(f"{engine} can't build the image; what it has said stands above. It needs a network, once")


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


def _other(engine: str) -> str:
    return next(one for one in ENGINES if one != engine)
