"""Run notebooks from top to bottom, where the wheel is installed: `run_notebooks.py NOTEBOOK ...`.

An exercise is run as it is handed out, where nothing may fail but what is not written yet, and with its solution in it.
"""

import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from gpipe_edu.course.building.build import notebook_text
from gpipe_edu.course.building.places import ROOT

UNWRITTEN = {"NotImplementedError", "Unwritten"}


def run(notebook, folder, may_fail=()):
    """Raises what a cell raises, but for errors of these names; some must be raised where some may be."""
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, resources=where, allow_error_names=list(may_fail)).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    failed = {output.ename for output in outputs if output.output_type == "error"}
    if bool(failed) != bool(may_fail):
        raise SystemExit(f"nothing failed, though nothing is written yet: {notebook.cells[0].source[:60]}")


for path in map(Path, sys.argv[1:]):
    began, asked = time.monotonic(), nbformat.read(path, as_version=4)
    master = ROOT / "solutions" / f"{path.stem}.py"
    run(asked, path.parent, UNWRITTEN if master.exists() else ())
    if master.exists():
        run(nbformat.reads(notebook_text(master, marked=True), as_version=4), path.parent)
    print(f"{path.stem} runs: {time.monotonic() - began:.0f} s", flush=True)
