"""Files of Pyodide and the packages it runs, which the lab serves itself: named with their checksums, not committed.

`lab_files.json` holds Pyodide's core by name and checksum, the packages that Pyodide has released with it, and the lock
file that tells Pyodide where each package is. Files missing in the cache are downloaded; a wrong checksum stops the
build.
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

HERE = Path(__file__).parent
RELEASE = "https://cdn.jsdelivr.net/pyodide/v{version}/full/{name}"
CARRIER, INSIDE = "open-webui==0.12.4", "open_webui/frontend/pyodide/{name}"
"""A package that carries the same files, for networks that reach only a package index; 106 MB."""

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpipe_edu" / "lab"
PATIENCE = 20


def list_files() -> dict[str, Any]:
    """The content of `lab_files.json`."""
    found: dict[str, Any] = json.loads((HERE / "lab_files.json").read_text(encoding="utf-8"))
    return found


def fetch() -> dict[str, Path]:
    """Every file of the list by its name, in the cache. Raises ValueError for a wrong checksum."""
    files = list_files()
    sums = files["core"] | {one["file_name"]: one["sha256"] for one in files["lock"]["packages"].values()}
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = [name for name in sums if not (CACHE / name).exists()]
    from_pyodide = [name for name in missing if name in (*files["core"], *files["released"])]
    others = [name for name in missing if name not in from_pyodide]
    if from_pyodide:
        _from_pyodide(files["pyodide"], from_pyodide)
    if others:
        _from_index(files["lock"]["packages"], others)
    for name, wanted in sums.items():
        found = hashlib.sha256((CACHE / name).read_bytes()).hexdigest()
        if found != wanted:
            raise ValueError(
                f"{CACHE / name} has the sum {found}, and {wanted} is what lab_files.json wants: it is another file. "
                "Delete it to fetch it again; if it comes again, do not use it"
            )
    return {name: CACHE / name for name in sums}


def _from_pyodide(version: str, names: list[str]) -> None:
    """From Pyodide's own release, or from the package that carries its files."""
    print(f"fetching {len(names)} files of Pyodide {version} ...", flush=True)
    try:
        for name in names:
            address = RELEASE.format(version=version, name=name)
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                _keep(name, answer.read())
    except OSError as error:
        print(f"Pyodide's release cannot be reached ({error}); trying {CARRIER}, 106 MB", flush=True)
        _pip(CARRIER, "--no-deps")
        (carrier,) = CACHE.glob("open_webui-*.whl")
        with zipfile.ZipFile(carrier) as wheel:
            for name in names:
                _keep(name, wheel.read(INSIDE.format(name=name)))
        carrier.unlink()


def _from_index(packages: dict[str, Any], names: list[str]) -> None:
    """Wheels that run anywhere, from the package index."""
    print(f"fetching {len(names)} packages ...", flush=True)
    wanted = [f"{one['name']}=={one['version']}" for one in packages.values() if one["file_name"] in names]
    anywhere = ["--only-binary", ":all:", "--platform", "any", "--implementation", "py", "--abi", "none"]
    _pip(*wanted, "--no-deps", "--python-version", "3.14", *anywhere)


def _pip(*arguments: str) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(CACHE)]
    subprocess.run([*pip, *arguments], check=True)


def _keep(name: str, content: bytes) -> None:
    """Write a file so that it is whole or absent: a download may be interrupted."""
    part = CACHE / f"{name}.part"
    part.write_bytes(content)
    part.replace(CACHE / name)
