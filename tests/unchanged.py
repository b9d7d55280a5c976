"""Rooms of tests that take minutes run when what they look at has changed since they last passed.

What passed is written to `unchanged.json`, which is committed: a digest of all that a room looks at, by the graph of
imports. Whoever names such a room, or asks for `--whole`, has it run in any case.
"""

import hashlib
import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "unchanged.json"
EVERYWHERE = (
    "requirements.txt",
    "requirements-dev.txt",
    "conftest.py",
    ":(glob)tests/*.py",
    ":(exclude,glob)tests/test_*.py",
)
BESIDE = ("css", "html", "j2", "js", "json", "toml")
"""What stands beside Python in the package and is drawn or said."""

ELSEWHERE = ("make site-test", ".ci/nbgrader", "builds a real image", "there is no docker")
"""What is skipped for these reasons has its own command; what for another has not passed, as Chromium is missing."""

NARROWER = ("keyword", "markexpr", "collectonly", "lf", "deselect", "ignore", "ignore_glob", "stepwise", "splits")
"""A run with one of these has not gone through its rooms in full."""


@dataclass(frozen=True)
class Inputs:
    """What a room of tests looks at: parts of the package with all that they import, and further paths (of git)."""

    package: tuple[str, ...]
    paths: tuple[str, ...]


PAGES = ("course", "puzzles", "view", "sizing.page", "teaching.lecture", "teaching.handouts")
COURSE = (
    *("notebooks", "exercises", "solutions", "docs", "lectures"),
    *("README.md", "CONTRIBUTING.md", "benchmarks/README.md"),
)
REQUIREMENTS = "requirements*.txt"
ROOMS = {
    "tests/browser": Inputs(
        (*PAGES, "teaching"),  # slides show cells of lessons
        ("notebooks", "lectures", "website/bundle.py", "website/package.json", "tests/website"),
    ),
    "tests/website": Inputs((*PAGES, "judge"), (*COURSE, "website", "tests/browser", ".github", REQUIREMENTS)),
    "tests/solutions": Inputs(
        ("judge", "teaching.authoring", "course", "distributed", "pytorch", "view"),
        ("exercises", "solutions", "tests/timeline/opened"),
    ),
    "tests/grading": Inputs(("teaching", "judge"), ("exercises", "solutions", "tests/solutions")),
    "tests/benchmarks": Inputs(
        ("pytorch", "sizing", "timeline"), ("benchmarks", "notebooks", "README.md", "tests/pytorch", REQUIREMENTS)
    ),
}


def left_out(config) -> list[str]:
    """The rooms of a run's tests that it need not go through: nobody names them, and what they look at is as it was."""
    if config.getoption("whole"):
        return []
    return [
        room for room in _rooms(config) if Path(room) not in _named(config) and recorded().get(room) == digest(room)
    ]


def take(config) -> None:
    """Note how a run finds what its rooms look at: what is changed meanwhile has not passed."""
    for room in _rooms(config):
        digest(room)


def record(config, skipped) -> None:
    """Write down the rooms that this run, which has passed, went through in full. `skipped`: reports of tests."""
    if any(config.getoption(option, None) for option in NARROWER):
        return
    missed = [report.nodeid for report in skipped if not any(why in str(report.longrepr) for why in ELSEWHERE)]
    went = {room: digest(room) for room in _rooms(config) if not any(test.startswith(f"{room}/") for test in missed)}
    if went.items() - recorded().items():
        RECORD.write_text(json.dumps(recorded() | went, indent=2, sort_keys=True) + "\n")


def recorded() -> dict[str, str]:
    """The digests of what passed."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


@cache
def digest(room: str) -> str:
    """Of the names and bytes of all files that the room looks at; "" where git can't list them, which no record has."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *_paths(room)]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        return ""
    found = hashlib.sha256()
    for name in sorted(set(listed.stdout.split("\0")) - {""}):
        path = ROOT / name
        if path.is_file() and path != RECORD:
            found.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _paths(room: str) -> list[str]:
    """For git: the room, its modules of the package, and beside these what is no Python."""
    inputs = ROOMS[room]
    modules = _imported(inputs.package)
    files = {path for module in modules for path in _files_of(module)}
    folders = {Path(path).parent for path in files} - {Path("gpipe_edu")}
    beside = {f":(glob){folder}/**/*.{kind}" for folder in folders for kind in BESIDE}
    return [room, *EVERYWHERE, *inputs.paths, *sorted(files), *sorted(beside)]


def _files_of(module: str) -> list[str]:
    path = module.replace(".", "/")
    return [name for name in (f"{path}.py", f"{path}/__init__.py") if (ROOT / name).exists()]


@cache
def _imported(package: tuple[str, ...]) -> set[str]:
    import grimp  # import-linter's, which few runs need

    graph = grimp.build_graph("gpipe_edu", cache_dir=None)
    found = {"gpipe_edu"}
    for part in package:
        name = f"gpipe_edu.{part}"
        found |= {name} | graph.find_descendants(name) | graph.find_upstream_modules(name, as_package=True)
    return found


def _rooms(config) -> list[str]:
    """The rooms whose tests are all in a run."""
    named = _named(config)
    return [room for room in ROOMS if any(path in named for path in (Path(room), *Path(room).parents))]


def _named(config) -> list[Path]:
    """The paths on pytest's command line, from the project's folder."""
    paths = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    return [path.relative_to(ROOT) for path in paths if path.is_relative_to(ROOT)]
