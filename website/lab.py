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
from pathlib import Path
from typing import Any

import nbformat

from . import bytecode, wheel
from .fetched import fetch, list_files

KERNEL = "@jupyterlite/pyodide-kernel-extension"
EXTENSIONS = (KERNEL, "@jupyter-widgets/jupyterlab-manager", "anywidget")
PRELOADED = ["micropip", "piplite", "ipykernel", "comm", "pyodide-kernel", "jedi", "ipython", "gpipe-edu"]
"""What the kernel loads at its start, all at once instead of one after another."""

BUILDER = Path(sys.prefix) / "jupyterlite"
"""Where requirements-site.txt is installed: beside the other packages, because a JupyterLab with a server must not load
JupyterLite's extension."""

STANDARD_LIBRARY, LOCK = "python_stdlib.zip", "pyodide-lock.json"

NEEDED = [
    "numpy",
    "threadpoolctl",
    "cloudpickle",
    "packaging",
    "anywidget",
    "ipywidgets",
    "markdown-it-py",
]
"""Of gpipe_edu. Not matplotlib, a third of all that would be fetched: a cell that imports PLOTS brings it along."""

PLOTS = "gpipe_edu.view"

MEGABYTES, MEGABYTES_OF_PLOTS = 24, 13
"""What a first visit fetches until Python is ready, and what the first plot adds, as pages tell it."""


def needs_pytorch(notebook: Any) -> bool:
    """Whether some cell of it does."""
    return any(re.search(r"\btorch\b", cell.source) for cell in notebook.cells if cell.cell_type == "code")


def build(root: Path, out: Path, work: Path) -> None:
    """Build the lab of the course in `root` into `out`, which is then the folder `lab` of the site."""
    if not BUILDER.exists():
        raise FileNotFoundError(f"{BUILDER} is not there: `make site` installs what builds the lab")
    files = fetch()
    _contents(root, work / "contents")
    _lite(work, out)
    wanted = _pyodide(root, out, files)
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
    """Run JupyterLite's build, with only those extensions of this environment that the course uses."""
    chosen = work / "labextensions"
    for name in EXTENSIONS:
        places = [folder / "share" / "jupyter" / "labextensions" / name for folder in (BUILDER, Path(sys.prefix))]
        shutil.copytree(next(place for place in places if place.exists()), chosen / name)
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


def _pyodide(root: Path, out: Path, files: dict[str, Path]) -> list[str]:
    """Copy Python and its packages, write the lock file that lists them; returns what a kernel loads at its start."""
    folder = out / "static" / "pyodide"
    folder.mkdir(parents=True)
    lists = list_files()
    core = {name: files[name] for name in lists["core"]}
    packages = lists["lock"]["packages"]
    packages["matplotlib"]["imports"].append(PLOTS)
    wheels = {name: files[package["file_name"]] for name, package in packages.items()}
    pypi = out / "extensions" / KERNEL / "static" / "pypi"
    for name, imports, depends in (
        ("piplite", ["piplite"], ["micropip"]),
        ("pyodide-kernel", ["pyodide_kernel"], ["ipykernel", "ipython", "comm"]),
        ("ipykernel", ["ipykernel"], ["comm", "ipython"]),
        ("widgetsnbextension", ["widgetsnbextension"], []),
    ):
        wheels[name] = sorted(pypi.glob(f"{name.replace('-', '_')}-*.whl"))[-1]
        packages[name] = _entry(name, wheels[name], imports, depends)
    with tempfile.TemporaryDirectory() as work:
        wheels["gpipe-edu"] = wheel.build(root, Path(work))
        packages["gpipe-edu"] = _entry("gpipe-edu", wheels["gpipe-edu"], ["gpipe_edu"], NEEDED)
        made = bytecode.compile_archives(core, [*wheels.values(), core[STANDARD_LIBRARY]])
    for name, path in (core | made).items():
        shutil.copy(path, folder / name)
    for package in packages.values():
        package["sha256"] = hashlib.sha256(made[package["file_name"]].read_bytes()).hexdigest()
    (folder / LOCK).write_text(json.dumps(lists["lock"], indent=1), encoding="utf-8")
    return [*core, LOCK, *(packages[name]["file_name"] for name in _add_dependencies(PRELOADED, packages))]


def _add_dependencies(names: list[str], packages: dict[str, Any]) -> list[str]:
    """The packages `names` and all that those depend on, each once."""
    found = list(names)
    for name in found:
        found += [need for need in packages[name]["depends"] if need not in found]
    return found


def _entry(name: str, path: Path, imports: list[str], depends: list[str]) -> dict[str, Any]:
    return {
        "depends": depends,
        "file_name": path.name,
        "imports": imports,
        "install_dir": "site",
        "name": name,
        "package_type": "package",
        "unvendored_tests": False,
        "version": path.name.split("-")[1],
    }


def _page(out: Path, wanted: list[str]) -> None:
    """Make the page tell the state until the kernel is ready, and request its files while JupyterLab is loading; one
    document at a time.
    """
    shutil.copy(Path(__file__).parent / "assets" / "starting.js", out / "lab" / "starting.js")
    page = out / "lab" / "index.html"
    text = page.read_text(encoding="utf-8")
    links = "".join(f'<link rel="prefetch" href="../static/pyodide/{name}">\n' for name in wanted)
    head = f'{links}<script src="starting.js" data-megabytes="{MEGABYTES}"></script></head>'
    page.write_text(text.replace("</head>", head, 1), encoding="utf-8")
    config = out / "lab" / "jupyter-lite.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings["jupyter-config-data"]["mode"] = "single-document"  # the builder writes "multiple-document" over it
    config.write_text(json.dumps(settings), encoding="utf-8")


def _slim(out: Path) -> None:
    """Delete what no browser ever requests."""
    for path in out.rglob("*.map"):
        path.unlink()
