"""Modules as bytecode. A browser's Python begins with empty folders each time, and compiling all that it imports took
half of a kernel's start.

The compiler is the Python that will run the modules: Pyodide, here in Node.js.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from .fetched import CACHE, PYODIDE

SCRIPT = Path(__file__).parent / "assets" / "compile.mjs"
KEPT = CACHE.parent / "bytecode"
WITH_SOURCES = ("gpipe_edu",)
"""Learners may read our source from a cell; for other packages bytecode alone is less to unpack."""

LEFT_OUT = "jedi/third_party/(django-stubs|typeshed/third_party|typeshed/stdlib/2)/"
"""Jedi's stubs for libraries that are not installed, and for Python 2: two thirds of the files in its wheel."""


def compile_archives(archives: Iterable[Path]) -> dict[str, Path]:
    """Each of the wheels, and of zip files of modules, with bytecode; by name, in the cache.

    Raises FileNotFoundError without Node.js, RuntimeError if Node.js fails.
    """
    rules = SCRIPT.read_bytes() + f"{WITH_SOURCES} {LEFT_OUT}".encode()
    KEPT.mkdir(parents=True, exist_ok=True)
    made = {path: KEPT / f"{_sum(path.read_bytes() + rules)}-{path.name}" for path in archives}
    missing = {path: target for path, target in made.items() if not target.exists()}
    if missing:
        print(f"compiling {len(missing)} packages for the browser's Python ...", flush=True)
        _compile(missing)
    return {path.name: target for path, target in made.items()}


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _compile(wanted: Mapping[Path, Path]) -> None:
    node = shutil.which("node")
    if node is None:
        raise FileNotFoundError("Node.js compiles the lab's packages, and there is no `node` here: install Node.js 20")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        tasks = [
            {"from": str(path), "to": str(folder / target.name), "sources": path.name.startswith(WITH_SOURCES)}
            for path, target in wanted.items()
        ]
        command = [node, str(SCRIPT), str(PYODIDE / "pyodide.mjs"), json.dumps(tasks), LEFT_OUT]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
        if done.returncode:
            raise RuntimeError(f"the lab's packages could not be compiled:\n{(done.stdout + done.stderr)[-3000:]}")
        for target in wanted.values():
            part = target.with_suffix(".part")
            shutil.move(folder / target.name, part)
            part.replace(target)  # whole or absent: the build may be interrupted
