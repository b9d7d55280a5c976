"""The lab: JupyterLab in a browser without a server behind it, with Python and all packages from the same folder.

JupyterLite is the lab, Pyodide is Python. Pyodide gets a lock file of our own, which lists gpipe_edu and everything it
needs, so that the kernel requests exactly those files, all at once, and none from another host.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

import nbformat
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from . import bytecode, wheel
from .fetched import LOCK, PYODIDE, STANDARD_LIBRARY, fetch, read_lock

KERNEL = "@jupyterlite/pyodide-kernel-extension"
EXTENSIONS = (KERNEL, "@jupyter-widgets/jupyterlab-manager", "anywidget")
OWN = Path(str(files("gpipe_edu.course"))) / "jupyter_data" / "labextensions"
"""What `gpipe-edu lab` gives JupyterLab: on a small screen the list of files starts closed."""
PRELOADED = ["micropip", "piplite", "ipykernel", "comm", "pyodide-kernel", "jedi", "ipython", "gpipe-edu"]
"""What the kernel loads at its start, all at once instead of one after another."""

BUILDER = Path(sys.prefix) / "jupyterlite"
"""Where requirements-site.txt is installed: beside the other packages, because a JupyterLab with a server must not load
JupyterLite's extension."""

WHEELS = Path(sys.prefix) / "lab"
"""Where `make site` downloads what requirements-lab.txt names."""

CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", STANDARD_LIBRARY)

BROWSER = {"sys_platform": "emscripten", "platform_system": "Emscripten", "os_name": "posix", "python_version": "3.14"}
"""For requirements that a wheel has only on some machines."""

PLOTS = "gpipe_edu.view"
"""What brings matplotlib along."""

MEGABYTES, MEGABYTES_OF_PLOTS = 24, 13
"""What a first visit fetches until Python is ready, and what the first plot adds, as pages state it."""


def needs_pytorch(notebook: Any) -> bool:
    """Whether any of its cells does."""
    return any(re.search(r"\btorch\b", cell.source) for cell in notebook.cells if cell.cell_type == "code")


def build(root: Path, out: Path, work: Path) -> None:
    """Build the lab of the course in `root` into `out`, which is then the folder `lab` of the site."""
    if not BUILDER.exists():
        raise FileNotFoundError(f"{BUILDER} is not there: `make site` installs what builds the lab")
    compiled = fetch()
    _contents(root, work / "contents")
    _lite(work, out)
    wanted = _pyodide(root, out, compiled)
    _page(out, wanted)
    _slim(out)


def _contents(root: Path, folder: Path) -> None:
    """Write the course in the layout of the repository, so that links between its parts work."""
    for part in ("notebooks", "exercises"):
        (folder / part).mkdir(parents=True)
        for path in sorted((root / part).glob("*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            name = f"{part}/{path.name}"
            notebook.metadata.kernelspec = {"name": "python", "display_name": "Python (Pyodide)", "language": "python"}
            if needs_pytorch(notebook):
                notebook.cells.insert(0, _needs_pytorch(name))
            nbformat.write(notebook, folder / name)
    shutil.copytree(root / "docs", folder / "docs")


def _needs_pytorch(name: str) -> Any:
    page = f"../../{name.removesuffix('.ipynb')}.html"
    text = (
        "> **Some cells need PyTorch**, which does not run in a browser. "
        f'<a href="{page}" target="_top">See what they show</a>, or run all of it on your machine with `make lab`.'
    )
    return nbformat.v4.new_markdown_cell(text, id="needs-pytorch")


def _lite(work: Path, out: Path) -> None:
    """Run JupyterLite's build, with our extension and only those of this environment that the course uses."""
    chosen = work / "labextensions"
    for name in EXTENSIONS:
        places = [folder / "share" / "jupyter" / "labextensions" / name for folder in (BUILDER, Path(sys.prefix))]
        shutil.copytree(next(place for place in places if place.exists()), chosen / name)
    shutil.copytree(OWN, chosen, dirs_exist_ok=True)
    settings = {
        "LiteBuildConfig": {
            "ignore_sys_prefix": ["federated_extensions"],
            "contents": [str(work / "contents")],
            "apps": ["lab"],
            "output_dir": str(out),
            "cache_dir": str(work / "cache"),
            "no_sourcemaps": True,
            "no_unused_shared_packages": True,
        },
        "FederatedExtensionAddon": {"extra_labextensions_path": [str(chosen)]},
    }
    (work / "jupyter_lite_config.json").write_text(json.dumps(settings))
    overrides = {
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}},
        "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    }
    (work / "overrides.json").write_text(json.dumps(overrides))
    shown = {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {
            "appName": "gpipe_edu",
            "exposeAppInBrowser": True,
            "faviconUrl": "./lab/favicon.ico",
            "litePluginSettings": {
                f"{KERNEL}:kernel": {
                    "pyodideUrl": "./static/pyodide/pyodide.mjs",
                    "disablePyPIFallback": True,
                    "loadPyodideOptions": {"packages": PRELOADED},
                }
            },
        },
    }
    (work / "jupyter-lite.json").write_text(json.dumps(shown))
    command = [sys.executable, "-m", "jupyterlite_core", "build", "--lite-dir", str(work)]
    environment = {**os.environ, "PYTHONPATH": str(BUILDER)}
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"JupyterLite could not be built:\n{(done.stdout + done.stderr)[-3000:]}")


def _pyodide(root: Path, out: Path, compiled: Sequence[Path]) -> list[str]:
    """Copy Python and its packages, write the lock file that lists them; returns what a kernel loads at its start."""
    folder = out / "static" / "pyodide"
    folder.mkdir(parents=True)
    released = read_lock()
    of_kernel = sorted((out / "extensions" / KERNEL / "static" / "pypi").glob("*.whl"))
    with tempfile.TemporaryDirectory() as work:
        wheels = [*sorted(WHEELS.glob("*.whl")), *compiled, *of_kernel, wheel.build(root, Path(work))]
        made = bytecode.compile_archives([*wheels, PYODIDE / STANDARD_LIBRARY])
        packages = {entry["name"]: entry for entry in (_entry(path, released["packages"]) for path in wheels)}
    packages["matplotlib"]["imports"].append(PLOTS)
    for package in packages.values():
        package["sha256"] = hashlib.sha256(made[package["file_name"]].read_bytes()).hexdigest()
        shutil.copy(made[package["file_name"]], folder / package["file_name"])
    for name in CORE:
        shutil.copy(made.get(name, PYODIDE / name), folder / name)
    lock = {"info": released["info"], "packages": packages}
    (folder / LOCK).write_text(json.dumps(lock, indent=1), encoding="utf-8")
    return [*CORE, LOCK, *(packages[name]["file_name"] for name in _add_dependencies(PRELOADED, packages))]


def _add_dependencies(names: list[str], packages: dict[str, Any]) -> list[str]:
    """The packages `names` and all that they depend on, each once."""
    found = list(names)
    for name in found:
        found += [need for need in packages[name]["depends"] if need not in found]
    return found


def _entry(path: Path, released: dict[str, Any]) -> dict[str, Any]:
    """What the lock file says about a wheel: its own words, and the modules by which Pyodide knows it, if it does."""
    (about,) = metadata.distributions(path=[str(path)])
    name = canonicalize_name(about.name)
    needs = [Requirement(need) for need in about.requires or []]
    return {
        "depends": [canonicalize_name(need.name) for need in needs if not need.marker or need.marker.evaluate(BROWSER)],
        "file_name": path.name,
        "imports": released.get(name, {}).get("imports", []),
        "install_dir": "site",
        "name": name,
        "package_type": "package",
        "version": about.version,
    }


def _page(out: Path, wanted: list[str]) -> None:
    """Make the page show the state until the kernel is ready, and request its files while JupyterLab is loading; show
    one document at a time.
    """
    shutil.copy(Path(__file__).parent / "assets" / "lab_start.js", out / "lab" / "lab_start.js")
    page = out / "lab" / "index.html"
    text = page.read_text(encoding="utf-8")
    links = "".join(f'<link rel="prefetch" href="../static/pyodide/{name}">\n' for name in wanted)
    head = f'{links}<script src="lab_start.js" data-megabytes="{MEGABYTES}"></script></head>'
    page.write_text(text.replace("</head>", head, 1), encoding="utf-8")
    config = out / "lab" / "jupyter-lite.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings["jupyter-config-data"]["mode"] = "single-document"  # the builder writes "multiple-document" over it
    config.write_text(json.dumps(settings), encoding="utf-8")


def _slim(out: Path) -> None:
    """Delete what no browser ever requests."""
    for path in out.rglob("*.map"):
        path.unlink()
