"""Scripts of pages: each with all that it imports, ours and npm's, as one plain script, made by esbuild.

A browser loads no modules from a page opened by double click, so pages have none. `website/package.json` names what is
taken from npm, and `make` installs it beside the other packages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LIBRARIES = Path(sys.prefix) / "npm" / "node_modules"


def bundle(scripts: Sequence[Path], folder: Path) -> None:
    """Write each script into `folder`. Raises FileNotFoundError without npm's packages, RuntimeError for a mistake."""
    program = LIBRARIES / ".bin" / "esbuild"
    if not program.exists():
        raise FileNotFoundError(f"{program} is not there: `make .venv/npm/ready` installs it")
    command = [
        str(program),
        *map(str, scripts),
        f"--outdir={folder}",
        "--bundle",
        "--minify",
        "--format=iife",
        "--log-level=warning",
    ]
    environment = {**os.environ, "NODE_PATH": str(LIBRARIES)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        raise RuntimeError(f"esbuild:\n{done.stderr}")
    licences = [f"{path.parent.relative_to(LIBRARIES)}\n\n{path.read_text(encoding='utf-8')}" for path in _licences()]
    (folder / "licences.txt").write_text("\n\n".join(licences), encoding="utf-8")


def _licences() -> list[Path]:
    """Those of the packages that are part of pages, not of those that only build them."""
    makers = ("@biomejs", "@esbuild", "@types", "esbuild", "axe-core", "ws")
    return [
        path for path in sorted(LIBRARIES.glob("**/LICENSE*")) if path.relative_to(LIBRARIES).parts[0] not in makers
    ]
