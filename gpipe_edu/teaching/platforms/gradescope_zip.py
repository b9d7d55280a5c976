"""An autograder for Gradescope: an archive of two scripts, this package, and what is to be judged.

Gradescope builds a container from it once (`setup.sh`), and starts `run_autograder` in a fresh one for each hand-in.
"""

from __future__ import annotations

import json
import re
import secrets
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gpipe_edu.course.building.places import ROOT, clone
from gpipe_edu.teaching.handouts.kit import entry, names

_SETUP: Final = """\
#!/usr/bin/env bash
# Once, when the container is built: Python, bubblewrap and what the judge needs.
set -euo pipefail
source="${AUTOGRADER:-/autograder}/source"
new_enough() { command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; }
find_python() {
  for one in python3 python3.13 python3.12 python3.11; do new_enough "$one" && echo "$one" && return; done
}
python=$(find_python || true)
if [ -z "$python" ]; then
  apt-get update -q && apt-get install -y -q python3.11 || true
  python=$(find_python) || { echo "The judge needs Python 3.11 or newer: choose a newer base image." >&2; exit 1; }
fi
command -v bwrap >/dev/null || { apt-get update -q && apt-get install -y -q bubblewrap libseccomp2; } ||
  echo "bubblewrap can't be installed: answers will run as the user nobody." >&2
"$python" -m venv "$source/venv" || {
  apt-get update -q && apt-get install -y -q "$python-venv" && "$python" -m venv --clear "$source/venv"
}
"$source/venv/bin/python" -m pip install -q --extra-index-url https://download.pytorch.org/whl/cpu \\
  -r "$source/requirements.txt"
# Answers run as another user, who cannot read what is expected of them.
PYTHONPATH="$source" "$source/venv/bin/python" -c "from gpipe_edu.process.judges_files import shut; shut()"
"""

_RUN: Final = """\
#!/usr/bin/env bash
# For each hand-in: judge submission/, write results/results.json. AUTOGRADER: another place, to try it out.
here="${AUTOGRADER:-/autograder}"
exec env -i PATH="$PATH" LANG=C.UTF-8 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH="$here/source" \\
  "$here/source/venv/bin/python" -P -m gpipe_edu.teaching.platforms.gradescope_run "$here"
"""

_MOST: Final = 10**6


def write(path: Path, tasks: Sequence[str], seeds: int = 1, all_or_nothing: bool = False, root: Path = ROOT) -> int:
    """Write the archive; returns how many files are in it. All hand-ins are judged with seeds drawn now.

    Raises FileNotFoundError outside of the repository.
    """
    order = {
        "tasks": list(tasks),
        "seeds": [secrets.randbelow(_MOST) for _ in range(seeds)],
        "all_or_nothing": all_or_nothing,
    }
    clone(root)
    scripts = {"setup.sh": _SETUP, "run_autograder": _RUN}
    texts = {"requirements.txt": "\n".join(_requirements(root)) + "\n", "order.json": json.dumps(order) + "\n"}
    package = [name for name in names(root) if name.parts[0] == "gpipe_edu"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in scripts.items():
            archive.writestr(entry(name, executable=True), text)
        for name, text in texts.items():
            archive.writestr(entry(name), text)
        for inside in sorted(package, key=str):
            archive.writestr(entry(str(inside)), (root / inside).read_bytes())
    return len(scripts) + len(texts) + len(package)


def _requirements(root: Path) -> Iterator[str]:
    """What the package itself needs, and PyTorch, in the releases that the tests ran on."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [_name(one) for one in [*project["dependencies"], *project["optional-dependencies"]["torch"]]]
    for line in (root / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if _name(line) in wanted:
            yield line


def _name(requirement: str) -> str:
    return re.split(r"[=<>~!\[ ]", requirement)[0]
