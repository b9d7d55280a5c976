"""`lab`: JupyterLab on a copy of the course, set up so that a saved notebook shows its charts and answers again.

`copy` makes the copy alone, for other editors and for a hub's server; `environment` tells whether this machine can run
the course.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from gpipe_edu.base.terminal import Port, bad_arguments, needing, put_first
from gpipe_edu.base.words import plural
from gpipe_edu.course.building import workspace
from gpipe_edu.course.building.places import WORK, copy_here
from gpipe_edu.course.environment import look

Folder = Annotated[
    Path | None,
    typer.Option(help=f"Where your copy of the course is, or will be. Default: the one you stand in, or {WORK.name}."),
]

FIRST: Final = "/lab/tree/notebooks/00_start_here.ipynb"

SLOW_KERNEL: Final = "--MappingKernelManager.kernel_info_timeout=600"
"""Seconds that a kernel may take to answer first. After the server's own 60, a busy laptop's kernel counts as dead, and
cells wait for ever."""


def run(
    context: typer.Context,
    folder: Folder = None,
    port: Port = 8888,
) -> int:
    """Open the course in JupyterLab, on a copy that is yours; further options are JupyterLab's."""
    with bad_arguments():
        _refuse_a_folder(context.args)
        with needing("notebooks", "lab"):
            lab: Any = import_module("jupyterlab.labapp").LabApp
        _refuse_without_a_home()
        folder = _copy(folder)
    prepare(os.environ)
    print("JupyterLab starts; the address to open is printed below. Stop it with Ctrl-C, twice.")
    with tempfile.TemporaryDirectory(prefix="gpipe_edu_") as kernels:
        offer_kernel(os.environ, Path(kernels))
        lab.launch_instance(
            [
                f"--ServerApp.root_dir={folder.resolve()}",
                f"--port={port}",
                f"--LabApp.default_url={FIRST}",
                SLOW_KERNEL,
                *_root(),
                *context.args,
            ]
        )
    return 0


def copy(folder: Folder = None) -> int:
    """Bring the course into a folder, or up to date there, as `lab` does too. What you have changed is left alone."""
    with bad_arguments():
        folder = _copy(folder)
    print(f"Begin with {folder / FIRST.removeprefix('/lab/tree/')}.")
    return 0


def _refuse_a_folder(arguments: list[str]) -> None:
    """JupyterLab would take a word without a dash as the folder to open, and not find it in the copy."""
    for argument in arguments[:1]:
        if not argument.startswith("-"):
            raise ValueError(f"lab takes no {argument!r}; the folder of the copy is named by --folder {argument}")


def _refuse_without_a_home() -> None:
    """Jupyter keeps settings, and the addresses of its kernels, in the home folder: without one it shows tracebacks."""
    paths: Any = import_module("jupyter_core.paths")
    for folder in map(Path, (paths.jupyter_config_dir(), paths.jupyter_data_dir(), paths.jupyter_runtime_dir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            writable = os.access(folder, os.W_OK)
        except OSError:
            writable = False
        if not writable:
            raise ValueError(f"Jupyter cannot write to {folder}; set HOME to a folder that you can write to")


def _copy(folder: Path | None) -> Path:
    """Bring the course up to date in the folder, or in the usual one, which is returned."""
    folder = folder or copy_here() or WORK
    if folder.is_file():
        raise ValueError(f"{folder} is a file; --folder names the folder for the copy")
    for line in report_copies(workspace.copy(folder), folder):
        print(line)
    return folder


def report_copies(copied: list[workspace.Copied], folder: Path) -> list[str]:
    """Tell the learner about the copy: where it is, and what has changed in the course."""
    count = {what: sum(one.what == what for one in copied) for what in ("new", "updated")}
    lines = []
    if count["new"] == len(copied):
        lines.append(f"The course was copied into {folder}/: work there, it is yours.")
    elif any(count.values()):
        lines.append(f"{folder}/: {plural(count['new'], 'new file')}, {count['updated']} brought up to date.")
    lines += [
        f"A new version of a file you have changed is beside it: {one.path}" for one in copied if one.what == "beside"
    ]
    return lines


def prepare(environment: Any) -> None:
    """Put our settings and extension below the user's own, and this Python first on the path of its terminals."""
    put_first(environment, "JUPYTER_CONFIG_PATH", str(files("gpipe_edu.course") / "jupyter"))
    put_first(environment, "JUPYTER_PATH", str(files("gpipe_edu.course") / "jupyter_data"))
    put_first(environment, "PATH", str(Path(sys.executable).parent))


def offer_kernel(environment: Any, folder: Path) -> None:
    """Write this Python's kernel into `folder`; it loads the course at startup.

    A notebook's first cell may import torch before us: if it is missing, the error says how to get it.
    """
    kernelspec: Any = import_module("ipykernel.kernelspec")
    kernelspec.write_kernel_spec(
        folder / "kernels" / kernelspec.KERNEL_NAME, extra_arguments=["--ext=gpipe_edu.course"]
    )
    put_first(environment, "JUPYTER_PATH", str(folder))


def _root() -> list[str]:
    """Jupyter refuses to run as root, the only user of many containers, unless allowed to."""
    return ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []


def environment() -> int:
    """Say what the course needs, what this machine has, and how to get what is missing."""
    console = Console(highlight=False)
    table = Table("", "what", "found", "for", "how to get it", box=None, pad_edge=False)
    requirements = look()
    for needed in requirements:
        mark = "[green]ok[/]" if needed.ok else "[bold red]missing[/]" if needed.required else "[yellow]optional[/]"
        table.add_row(mark, needed.name, needed.found or "-", needed.purpose, "" if needed.ok else needed.cure)
    console.print(table)
    missing = [needed.name for needed in requirements if needed.required and not needed.ok]
    console.print(f"Missing: {', '.join(missing)}." if missing else "Ready: the course runs here.", style="bold")
    return 1 if missing else 0
