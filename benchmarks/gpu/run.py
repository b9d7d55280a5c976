"""Runs the parts one after the other, each in a process of its own, which can be ended even inside a call of CUDA.

After each part all that is known is written: `<card>.json`, the page `<card>.md` made of it, and files of the parts.
This process itself never loads PyTorch, so nothing can keep it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu import report
from benchmarks.gpu.findings import read
from benchmarks.gpu.part import NO_GPU
from benchmarks.gpu.sizes import FULL, Sizes

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
TOTAL: Final = 470
"""Seconds for all parts."""

PARTS: Final = {
    "benchmarks.gpu.environment": 30,
    "benchmarks.gpu.equality": 80,
    "benchmarks.gpu.sleepers": 60,
    "benchmarks.gpu.speed": 120,
    "benchmarks.gpu.memory": 30,
    "benchmarks.gpu.timeline": 40,
    "benchmarks.gpu.machine": 40,
    "benchmarks.gpu.two_gpus": 40,
    "benchmarks.gpu.lessons": 30,
}
"""The module of each part, and its limit in seconds."""

_PRINTED: Final = 4_000
"""Characters kept of the end of what a part has printed, where it did not end well."""


def run(
    folder: Path,
    sizes: Sizes = FULL,
    parts: Mapping[str, float] = PARTS,
    total: float = TOTAL,
    stand_in: str = "",
) -> int:
    """Run all parts and write into `folder`. stand_in: the module of a pretended GPU, as in part.py.

    Returns 0 if all that was asked holds, 1 if something does not or was not reached, 2 if there is no GPU.
    """
    results: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "pretended": bool(stand_in),
        "parts": [_not_reached(name, "it was not reached") for name in parts],
    }
    end = time.monotonic() + total
    for number, (name, limit) in enumerate(parts.items()):
        given = min(limit, end - time.monotonic())
        print(f"{_short(name)}: at most {max(given, 0):.0f} s", flush=True)
        with tempfile.TemporaryDirectory(prefix="gpipe_edu_gpu_") as scratch:
            if given > 0:
                part, printed, status = _run_part(name, sizes, stand_in, given, limit, Path(scratch))
            else:
                part, printed, status = _not_reached(name, "no time was left for it"), "", 0
            if status == NO_GPU:
                print(printed.strip().splitlines()[-1])
                return 2
            print(printed, flush=True)
            results["parts"][number] = part
            _write(folder, results, Path(scratch))
    print(report.verdict(results))
    return 0 if report.holds(results) else 1


def _run_part(
    name: str, sizes: Sizes, stand_in: str, given: float, limit: float, scratch: Path
) -> tuple[dict[str, Any], str, int | None]:
    """What a part has found until its end or its limit, what it has printed, and its exit status."""
    findings, output = scratch / "findings", scratch / "printed"
    command = [sys.executable, "-m", "benchmarks.gpu.part", name, json.dumps(sizes), stand_in, str(findings)]
    began = time.monotonic()
    with output.open("wb") as into:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=into, stderr=into, start_new_session=True
        )
        try:
            status = process.wait(given)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
    took = time.monotonic() - began
    printed = output.read_text(encoding="utf-8", errors="replace")
    short = f" instead of {limit:g}, as no more was left" if given < limit else ""
    ended = f"ended at its limit of {given:.0f} s{short}" if status is None else status and f"exit status {status}"
    part = {"name": _short(name), "seconds": round(took, 1), "ended": ended or "", "findings": read(findings)}
    if ended:
        part["printed"] = printed[-_PRINTED:]
    return part, printed, status


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and all that it has started, and wait; but not for ever: a driver may hold a process that is killed."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)


def _not_reached(name: str, why: str) -> dict[str, Any]:
    return {"name": _short(name), "seconds": 0, "ended": why, "findings": []}


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _write(folder: Path, results: Mapping[str, Any], scratch: Path) -> None:
    """The JSON, the page, and the files of the part that has just run."""
    card = report.file_name(results)
    for part in results["parts"]:
        for finding in part["findings"]:
            if finding["kind"] == "file" and (scratch / finding["name"]).exists():
                (folder / f"{card}_{finding['name']}").write_bytes((scratch / finding["name"]).read_bytes())
    (folder / f"{card}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    (folder / f"{card}.md").write_text(report.page(results), encoding="utf-8")
