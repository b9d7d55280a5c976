"""Pyodide, and the packages that are compiled for it: no package index has those, so they come from its release.

npm's package `pyodide`, whose version `website/package.json` names, has Python, its standard library, and the lock file
of the release, which has the checksums of packages. A file that is not in the cache is downloaded; a wrong checksum
stops the build.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

from .bundle import LIBRARIES

PYODIDE = LIBRARIES / "pyodide"
LOCK, STANDARD_LIBRARY = "pyodide-lock.json", "python_stdlib.zip"
COMPILED = ("contourpy", "kiwisolver", "matplotlib", "numpy", "pillow")

RELEASE = "https://cdn.jsdelivr.net/pyodide/v{version}/full/{name}"
CARRIER, INSIDE = "open-webui==0.12.4", "open_webui/frontend/pyodide/{name}"
"""A package that carries the same files, for networks that reach only a package index; 106 MB."""

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpipe_edu" / "lab"
PATIENCE = 20


def read_lock() -> dict[str, Any]:
    """The lock file of Pyodide's release."""
    found: dict[str, Any] = json.loads((PYODIDE / LOCK).read_text(encoding="utf-8"))
    return found


def fetch() -> list[Path]:
    """The wheels of COMPILED, in the cache. Raises ValueError for a wrong checksum."""
    packages = read_lock()["packages"]
    sums = {packages[name]["file_name"]: packages[name]["sha256"] for name in COMPILED}
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = [name for name in sums if not (CACHE / name).exists()]
    if missing:
        _fetch(missing)
    for name, wanted in sums.items():
        found = hashlib.sha256((CACHE / name).read_bytes()).hexdigest()
        if found != wanted:
            raise ValueError(
                f"{CACHE / name} has the sum {found}, and {wanted} is what Pyodide's lock file wants: it is another "
                "file. Delete it to fetch it again; if it comes again, do not use it"
            )
    return [CACHE / name for name in sums]


def _fetch(names: list[str]) -> None:
    """From Pyodide's own release, or from the package that carries its files."""
    version = json.loads((PYODIDE / "package.json").read_text(encoding="utf-8"))["version"]
    print(f"fetching {len(names)} packages of Pyodide {version} ...", flush=True)
    try:
        for name in names:
            address = RELEASE.format(version=version, name=name)
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                _keep(name, answer.read())
    except OSError as error:
        print(f"Pyodide's release cannot be reached ({error}); trying {CARRIER}, 106 MB", flush=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--dest", str(CACHE), CARRIER], check=True)
        (carrier,) = CACHE.glob("open_webui-*.whl")
        with zipfile.ZipFile(carrier) as wheel:
            for name in names:
                _keep(name, wheel.read(INSIDE.format(name=name)))
        carrier.unlink()


def _keep(name: str, content: bytes) -> None:
    """Write a file so that it is whole or absent: a download may be interrupted."""
    part = CACHE / f"{name}.part"
    part.write_bytes(content)
    part.replace(CACHE / name)
